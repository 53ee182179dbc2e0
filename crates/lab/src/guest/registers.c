/*
 * Preloaded into User-Mode Linux where a process has more state than that kernel has room for.
 *
 * It saves and restores the vector registers of its processes as one piece of 2,696 bytes. Processors with matrix registers have
 * more, and Linux takes only a complete piece, so every process of the guest would die at its first instruction. The rest is
 * taken from the process as it is: a guest cannot have used it, because it must be asked for first.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* More than any processor has; not on the stack, because that of a guest's kernel is small. One thread traces. */
static char complete[64 * 1024];

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	/* The C library returns what was read, the kernel stores it. */
	if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) {
		long word;
		if (syscall(SYS_ptrace, request, pid, address, &word) < 0)
			return -1;
		errno = 0;
		return word;
	}
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		const struct iovec *part = data;
		struct iovec all = { complete, sizeof complete };
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) < 0)
			return -1;
		if (part->iov_len < all.iov_len) {
			memcpy(complete, part->iov_base, part->iov_len);
			return syscall(SYS_ptrace, request, pid, address, &all);
		}
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
