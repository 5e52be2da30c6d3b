package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
)

// A manager is the service manager that has started the service, as sd_notify(3) and
// sd_listen_fds(3) describe it. Its zero value is none.
type manager struct {
	socket   string
	watchdog time.Duration // it ends a service that is silent for so long; 0: it does not
}

// managerOf finds the manager in the environment.
func managerOf(getenv func(string) string, pid int) manager {
	m := manager{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if of := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (of == "" || of == strconv.Itoa(pid)) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// tell tells the manager a state. One that does not listen misses it.
func (m manager) tell(state string) {
	if m.socket == "" {
		return
	}
	if c, err := net.Dial("unixgram", m.socket); err == nil {
		_, _ = c.Write([]byte(state))
		c.Close()
	}
}

// guardedBy tells the manager again and again that the service is alive: that its parts answer.
func (s *server) guardedBy(ctx context.Context, m manager) {
	if m.watchdog == 0 {
		return
	}
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		s.watch.mu.Lock() // a part that hangs holds its lock
		heard := len(s.watch.listeners)
		s.watch.mu.Unlock()
		m.tell(fmt.Sprintf("WATCHDOG=1\nSTATUS=%d tasks, %d streams", len(s.tasks.all()), heard))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// firstPassed is the descriptor of the first socket that a manager passes.
const firstPassed = 3

// passed returns the listener that a manager passes, or nil.
func passed(getenv func(string) string, pid int) (net.Listener, error) {
	if getenv("LISTEN_PID") != strconv.Itoa(pid) || getenv("LISTEN_FDS") == "" {
		return nil, nil
	}
	if n := getenv("LISTEN_FDS"); n != "1" {
		return nil, ui.BadUsage(fmt.Sprintf("%s sockets were passed to the service, and it takes one", n), "leave one ListenStream= in the unit of the socket")
	}
	f := os.NewFile(firstPassed, "passed")
	if f == nil {
		return nil, errors.New("the passed socket is not open")
	}
	defer f.Close() // the listener has a copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, ui.BadUsage("the passed socket is no listening socket: "+err.Error(), "use ListenStream= in the unit of the socket")
	}
	return l, nil
}
