//! The steps of setting a process up, with the exit codes that systemd gave them.

use std::fmt;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal;)*) => {
        /// A step of setting a process up.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Step {
            $($(#[$doc])* $name = $code,)*
        }

        impl Step {
            /// Every step.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// In a word, as messages have it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

steps! {
    /// The working directory.
    Chdir = 200, "chdir";
    /// The nice level.
    Nice = 201, "nice";
    /// The descriptors from 3 on.
    Fds = 202, "fds";
    /// Executing the program.
    Exec = 203, "exec";
    /// Memory for the tables.
    Memory = 204, "memory";
    /// Resource limits.
    Limits = 205, "limits";
    /// The out-of-memory score.
    OomAdjust = 206, "oom-adjust";
    /// Signal mask and dispositions.
    SignalMask = 207, "signal-mask";
    /// Standard input.
    Stdin = 208, "stdin";
    /// Standard output.
    Stdout = 209, "stdout";
    /// The root directory.
    Chroot = 210, "chroot";
    /// The I/O priority.
    IoPriority = 211, "ioprio";
    /// The timer slack.
    TimerSlack = 212, "timerslack";
    /// The secure bits.
    SecureBits = 213, "securebits";
    /// The scheduling policy.
    Scheduler = 214, "setscheduler";
    /// The processors.
    CpuAffinity = 215, "cpuaffinity";
    /// Group and supplementary groups.
    Group = 216, "group";
    /// The user.
    User = 217, "user";
    /// Capabilities.
    Capabilities = 218, "capabilities";
    /// The cgroup.
    Cgroup = 219, "cgroup";
    /// The session.
    Setsid = 220, "setsid";
    /// Asking the operator.
    Confirm = 221, "confirm";
    /// Standard error.
    Stderr = 222, "stderr";
    /// PAM.
    Pam = 224, "pam";
    /// The network namespace.
    Network = 225, "network";
    /// The mount namespace.
    Namespace = 226, "namespace";
    /// No new privileges.
    NoNewPrivileges = 227, "no-new-privileges";
    /// The system call filter.
    Seccomp = 228, "seccomp";
    /// The SELinux context.
    SelinuxContext = 229, "selinux-context";
    /// The personality.
    Personality = 230, "personality";
    /// The AppArmor profile.
    ApparmorProfile = 231, "apparmor-profile";
    /// The address families.
    AddressFamilies = 232, "address-families";
    /// Runtime directories.
    RuntimeDirectory = 233, "runtime-directory";
    /// Ownership of a socket.
    Chown = 235, "chown";
    /// The SMACK label.
    SmackLabel = 236, "smack-process-label";
    /// The keyring.
    Keyring = 237, "keyring";
    /// State directories.
    StateDirectory = 238, "state-directory";
    /// Cache directories.
    CacheDirectory = 239, "cache-directory";
    /// Log directories.
    LogsDirectory = 240, "logs-directory";
    /// Configuration directories.
    ConfigurationDirectory = 241, "configuration-directory";
    /// The NUMA policy.
    NumaPolicy = 242, "numa-policy";
    /// Credentials.
    Credentials = 243, "credentials";
    /// BPF programs.
    Bpf = 245, "bpf";
}

impl Step {
    /// What a process that fails in this step ends with.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        self as u8
    }

    /// The step of an exit code.
    #[must_use]
    pub fn from_exit_code(code: u8) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|step| step.exit_code() == code)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::Step;

    #[test]
    fn codes_and_words_name_one_step_each() {
        for step in Step::ALL {
            assert_eq!(Step::from_exit_code(step.exit_code()), Some(*step));
            let same = Step::ALL.iter().filter(|other| other.word() == step.word());
            assert_eq!(same.count(), 1, "{step}");
        }
        assert_eq!(Step::from_exit_code(223), None);
        assert_eq!(Step::from_exit_code(1), None);
    }
}
