package rank

import (
	"fmt"
	"os"
	"strconv"

	"ckpt/coordinator/launch"
	client "ckpt/coordinator/process"
	"ckpt/coordinator/wire"
)

// describe says to the coordinator what the process is and where it runs.
func describe(h client.Hello, getenv func(string) string) *wire.Process {
	d := &wire.Process{Version: wire.Version, Client: int(h.Version), Language: h.Language, Size: h.Size, PID: h.PID}
	host, name := wire.ThisHost()
	d.Host, d.Name = host+" "+name, name // several simulated nodes may share a host
	for _, name := range wire.SizeVariables {
		if n, err := strconv.Atoi(getenv(name)); err == nil {
			d.Sizes = append(d.Sizes, wire.Size{Variable: name, Ranks: n})
		}
	}
	exe := fmt.Sprintf("/proc/%d/exe", h.PID)
	d.Program, _ = os.Readlink(exe)
	if h.Rank == 0 {
		d.Digest, _, _ = launch.Digest(exe) // nobody is warned of another binary then
	}
	if h.Version < client.OldestVersion || h.Version > client.Version {
		d.Trouble = fmt.Sprintf("the client in the program of rank %d has version %d, this ckpt needs version %d", h.Rank, h.Version, client.Version)
	}
	return d
}
