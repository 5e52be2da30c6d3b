package mpi

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/vfs"
)

const (
	groupEnv = "CKPT_MPI_TEST_GROUP"
	asked    = 60 // by each of ranks 0 and 2
)

// fold is what rank 1 computes: what it answers depends on all that it has been
// asked before, and in which order.
func fold(sum uint64, src int, v uint64) uint64 { return sum*31 + v*uint64(src+1) + 1 }

// groupMain is rank 1 of three, a group and a process of its own, with a log on
// disk and no checkpoint but its beginning. It answers and ends.
func groupMain() int {
	if err := answer(strings.Split(os.Getenv(groupEnv), ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func answer(args []string) error {
	kind, err := channel.ParseKind(args[0])
	if err != nil {
		return err
	}
	incarnation, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		return err
	}
	log, _, err := msglog.Open(vfs.OS{}, args[1], msglog.ID{Job: "test", Rank: 1}, msglog.Options{})
	if err != nil {
		return err
	}
	frames, err := log.NewReader(0)
	if err != nil {
		return err
	}
	beginning, err := channel.New(channel.Config{Kind: kind, Rank: 1, Size: 3})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c, err := Join(Config{Rank: 1, Size: 3, NodeOf: make([]int, 3), Listener: l, Peers: []string{args[2], "", args[3]}, Token: []byte("token"),
		Channels: &Channels{Kind: kind, Incarnation: incarnation, Log: log,
			Restore: &Restored{State: beginning.Snapshot().Encode(), Frames: frames.Next}}})
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	sum := uint64(0)
	for range 2 * asked {
		var b [8]byte
		st, err := c.Recv(AnySource, 0, b[:])
		if err != nil {
			return err
		}
		sum = fold(sum, st.Source, binary.LittleEndian.Uint64(b[:]))
		binary.LittleEndian.PutUint64(b[:], sum)
		if err := c.Send(st.Source, 0, b[:]); err != nil {
			return err
		}
	}
	if err := flush(context.Background(), c); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return log.Close()
}

// A process is killed again and again while it answers two others, who do not
// notice but by waiting: the answers are those of one that lived on.
func TestKilledProcessAnswersAsIfItLived(t *testing.T) {
	for _, kind := range []channel.Kind{channel.Receiver, channel.Sender} {
		t.Run(kind.String(), func(t *testing.T) {
			dir := t.TempDir() + "/log"
			addrs := []string{"", "", ""}
			comms := map[int]*Comm{}
			for _, r := range []int{0, 2} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				addrs[r] = l.Addr().String()
				log, _, err := msglog.Open(vfs.OS{}, t.TempDir()+"/log", msglog.ID{Job: "test", Rank: r}, msglog.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if comms[r], err = Join(Config{Rank: r, Size: 3, NodeOf: make([]int, 3), Listener: l, Peers: make([]string, 3), Token: []byte("token"),
					Channels: &Channels{Kind: kind, Log: log}}); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := log.Close(); err != nil {
						t.Error(err)
					}
				}()
				defer comms[r].Close()
			}
			incarnation := uint64(0)
			start := func() *exec.Cmd {
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v,%s,%s,%s,%d", groupEnv, kind, dir, addrs[0], addrs[2], incarnation))
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				addr, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range comms {
					if err := c.PeerMoved(1, strings.TrimSpace(addr), incarnation); err != nil {
						t.Fatal(err)
					}
				}
				return cmd
			}
			cmd := start()
			answers := map[int][]uint64{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			progress := make(chan int, 2*asked)
			for r, c := range comms {
				wg.Go(func() {
					for i := range uint64(asked) {
						var b [8]byte
						binary.LittleEndian.PutUint64(b[:], i)
						if err := c.Send(1, 0, b[:]); err != nil {
							t.Error(err)
							return
						}
						if i%3 == 0 {
							continue // some questions are asked before the last is answered
						}
						for n := uint64(0); n < 1 || i%3 == 2 && n < 2; n++ {
							if _, err := c.Recv(1, 0, b[:]); err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							answers[r] = append(answers[r], binary.LittleEndian.Uint64(b[:]))
							mu.Unlock()
							progress <- r
						}
					}
				})
			}
			for n := range 2 * asked {
				<-progress
				if n%25 == 10 && n < 100 { // later it may have come to its end
					if err := cmd.Process.Kill(); err != nil {
						t.Fatal(err)
					}
					_ = cmd.Wait() // killed
					incarnation++
					cmd = start()
				}
			}
			wg.Wait()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			// There is an order in which the questions give these answers.
			sum, next := uint64(0), map[int]int{}
			for range 2 * asked {
				found := false
				for _, r := range []int{0, 2} {
					i := next[r]
					if i < len(answers[r]) && answers[r][i] == fold(sum, r, uint64(i)) {
						sum, found = answers[r][i], true
						next[r]++
						break
					}
				}
				if !found {
					t.Fatalf("after %v answers: %x and %x follow no order of questions", next, answers[0], answers[2])
				}
			}
			if incarnation < 4 {
				t.Errorf("it was killed %d times", incarnation)
			}
		})
	}
}
