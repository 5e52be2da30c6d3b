package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/vfs"
)

// ThisMachine returns the machine that runs this program.
func ThisMachine() *Machine {
	start := time.Now()
	return &Machine{
		FS:       vfs.OS{},
		TempDir:  os.TempDir,
		Statfs:   statfs,
		Medium:   MediumOf,
		Sample:   32 << 20,
		ReadFile: os.ReadFile,
		Limit:    limit,
		LookPath: exec.LookPath,
		Clock: func() (time.Time, time.Duration) {
			now := time.Now()
			return now.Round(0), now.Sub(start) // Round drops the monotonic reading
		},
		Sleep:      time.Sleep,
		Tasks:      tasks,
		OpenMemory: openMemory,
		Build:      ui.ThisBuild,
	}
}

// openMemory opens the memory of the process that started this one: it is of the same
// user and no child, as are those that ckpt zones reads.
func openMemory() error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", os.Getppid()))
	if err != nil {
		return err
	}
	return f.Close()
}
