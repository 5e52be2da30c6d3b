package wire

import (
	"os"
	"strings"
)

// SameProcesses reports whether two identities of hosts are of one host and one space of
// process numbers, whatever files each sees.
func SameProcesses(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return len(x) == 3 && len(y) == 3 && x[0] == y[0] && x[2] == y[2]
}

// ThisHost identifies the host of this process, and names it for people. Processes with
// equal identities share memory, and can signal each other. The name is that of the node
// under Slurm, which may run several nodes on one host.
func ThisHost() (id, name string) {
	if name = os.Getenv("SLURMD_NODENAME"); name == "" {
		name, _ = os.Hostname()
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = []byte(name)
	}
	parts := []string{strings.TrimSpace(string(boot))}
	for _, ns := range []string{"mnt", "pid"} { // a batch system may give a job a /dev/shm of its own
		link, _ := os.Readlink("/proc/self/ns/" + ns) // mnt:[4026531841]
		parts = append(parts, strings.Trim(strings.TrimPrefix(link, ns), ":[]"))
	}
	return strings.Join(parts, "."), name
}
