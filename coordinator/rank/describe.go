package rank

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"

	client "ckpt/coordinator/process"
	"ckpt/coordinator/wire"
)

// describe says to the coordinator what the process is and where it runs.
func describe(h client.Hello, getenv func(string) string) *wire.Process {
	d := &wire.Process{Version: wire.Version, Client: int(h.Version), Language: h.Language, Size: h.Size, PID: h.PID}
	d.Host, d.Name = node(getenv)
	for _, name := range wire.SizeVariables {
		if n, err := strconv.Atoi(getenv(name)); err == nil {
			d.Sizes = append(d.Sizes, wire.Size{Variable: name, Ranks: n})
		}
	}
	exe := fmt.Sprintf("/proc/%d/exe", h.PID)
	d.Program, _ = os.Readlink(exe)
	if h.Rank == 0 {
		d.Digest, _ = digestFile(exe) // nobody is warned of another binary then
	}
	if h.Version != client.Version {
		d.Trouble = fmt.Sprintf("the client in the program of rank %d has version %d, this ckpt needs version %d", h.Rank, h.Version, client.Version)
	}
	return d
}

// node identifies the node of this process: the running system, and its name, since
// several simulated nodes may share one system.
func node(getenv func(string) string) (identity, name string) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	name = getenv("SLURMD_NODENAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	return strings.TrimSpace(string(boot)) + " " + name, name
}

func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := blake3.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}
