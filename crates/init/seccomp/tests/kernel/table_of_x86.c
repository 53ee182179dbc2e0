/* Asks for its parent through the table of x86, and ends with the number of the error that it got. */
static long call(long number, long argument) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(argument) : "rcx", "r11", "memory");
    return result;
}

void _start(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(64L) : "r8", "r9", "r10", "r11", "memory");
    call(231, result < 0 ? -result : 0);
    __builtin_unreachable();
}
