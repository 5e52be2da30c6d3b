package turns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire/secure"
)

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// dial connects to a controller: by its socket, or if that does not work, as on another
// host, over the network.
func dial(ctx context.Context, i *Info) (net.Conn, error) {
	err := errors.New("it listens nowhere")
	if i.Socket != "" {
		var conn net.Conn
		err = short(filepath.Join(i.Dir, dirName, i.Socket), func(path string) (err error) {
			conn, err = mpi.Dial(ctx, "unix", path)
			return err
		})
		if err == nil {
			return conn, nil
		}
	}
	if i.Address == "" {
		return nil, fmt.Errorf("process %d on host %s listens on the socket of that host only: %w", i.PID, i.Host, err)
	}
	key, err := secure.NewKey(i.Token)
	if err != nil {
		return nil, err
	}
	return key.Dial(ctx, i.Address)
}

// short calls use with a path of a socket that is short enough: through a descriptor of
// its directory, if need be.
func short(path string, use func(string) error) error {
	if len(path) <= maxSocketPath {
		return use(path)
	}
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	return use("/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path))
}
