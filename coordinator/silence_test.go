package coordinator

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/internal/testkit"
)

// A connectedRank is a rank of a test: a connection, and perhaps a process.
type connectedRank struct {
	*wire.Link
	process  int
	over     chan struct{}
	launched bool // by a launcher, whose end is that of all ranks
	ended    func(cause string)
}

func (r *connectedRank) Start(at launch.Rank, ended func(string)) (launch.Process, error) {
	r.ended = ended
	conn, err := wire.Dial(context.Background(), at.Socket, at.Token)
	if err == nil {
		err = wire.Greet(conn, wire.Greeting{Token: at.Token, Role: wire.RoleRank, Rank: at.Rank, Incarnation: at.Incarnation})
	}
	if err != nil {
		return nil, err
	}
	if r.Link, err = wire.NewLink(conn, bufio.NewReader(conn)); err != nil {
		return nil, err
	}
	r.Send(protocol.Hello{})
	return r, nil
}

func (r *connectedRank) Done() <-chan struct{} { return r.over }
func (r *connectedRank) PID() int              { return r.process }
func (r *connectedRank) Explains() bool        { return !r.launched }
func (r *connectedRank) Kill()                 {}

// standing is a driver whose loop a test runs by hand, of a job of one rank.
type standing struct {
	*driver
	t      *testing.T
	rec    *recorder
	rank   *connectedRank
	killed bool
	losses []string // why the rank died
}

func newStanding(t *testing.T, process int, launched bool) *standing {
	s := newSpec(t, "ring.S.2", 1)
	s.NP, s.Mapping, s.AutoRestart = 1, job.Mapping{1}, true
	store, j := emptyJob(t, t.TempDir())
	rec := &recorder{t: t}
	d := &standing{driver: newDriver(resolved(t, s), j, store.Dir(), libraryID{}, protocol.DefaultLimits, rec), t: t, rec: rec,
		rank: &connectedRank{process: process, over: make(chan struct{}), launched: launched}}
	close(d.rank.over)
	d.launcher, d.since = d.rank, time.Now()
	d.watch = func(a protocol.Action) {
		if r, ok := a.(protocol.Report); ok && r.Notice.Kind == protocol.RankDied {
			d.losses = append(d.losses, r.Notice.Text)
		}
		if _, ok := a.(protocol.Kill); ok {
			d.killed = true
			d.broken = os.ErrProcessDone // the loop ends here
		}
	}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.rank.Close()
		d.close()
	})
	var err error
	if d.machine, err = supervisor.New(supervisor.Config{Groups: [][]int{{0}}, Iterations: 10, Limits: d.limits, AutoRestart: true}); err != nil {
		t.Fatal(err)
	}
	d.inject = newInjector(d.driver, nil)
	d.perform(d.machine.Begin(0))
	for d.members[0].link == nil || !d.members[0].hello {
		d.turn()
	}
	return d
}

// turn is one turn of the loop.
func (d *standing) turn() {
	<-d.ready
	d.take()()
}

// sign has the rank send a message, and waits until it is noted.
func (d *standing) sign(m protocol.Message) {
	heard := &d.members[0].signs.heard
	before := heard.Load()
	d.rank.Send(m)
	for heard.Load() == before {
		time.Sleep(time.Millisecond)
	}
}

// later moves the clock on, by less than what counts as a coordinator that stood still.
func (d *standing) later() {
	d.since = d.since.Add(-d.limits.Silence / 3)
	d.step(supervisor.Job, protocol.Tick{})
}

// TestSignsWhileLoopStands has the loop take no message of a rank that goes on talking,
// as when each operation of the store takes long: more messages than any buffer holds,
// and a sign of life within each silence limit. Only when that ends, the rank is dead.
func TestSignsWhileLoopStands(t *testing.T) {
	t.Parallel()
	d := newStanding(t, 0, false)
	for range 1000 {
		d.sign(protocol.LogState{})
	}
	for range 20 {
		d.sign(protocol.Beat{Iter: 3})
		if d.later(); d.killed {
			t.Fatal("a rank that gives signs of life is declared dead")
		}
	}
	d.sign(protocol.Beat{Iter: 7})
	for len(d.list) > 0 {
		d.turn()
	}
	if iter := d.machine.Iteration(); iter != 7 {
		t.Errorf("the rank is at iteration %d, want that of its last beat, 7", iter)
	}
	for range 3 {
		d.later()
	}
	if !d.killed {
		t.Error("a silent rank is not declared dead")
	}
}

// TestWaitsForStorage suspends a file system: a silent rank whose process waits for it is
// not declared dead, and the user is told once. Without the process, it is.
func TestWaitsForStorage(t *testing.T) {
	t.Parallel()
	dir, warmUp := suspended(t)
	cmd := exec.Command("sh", "-c", "echo > "+filepath.Join(dir, "file"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !launch.WaitsForStorage(cmd.Process.Pid) {
		select {
		case err := <-ended:
			t.Fatalf("the process does not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	d := newStanding(t, cmd.Process.Pid, false)
	for range 20 {
		d.later()
	}
	if w := strings.Join(d.rec.warned, "\n"); d.killed || strings.Count(w, "rank 0 has given no sign of life for 10") != 1 {
		t.Errorf("declared dead: %v; warned %q", d.killed, w)
	}
	warmUp()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for range 4 {
		d.later()
	}
	if !d.killed {
		t.Error("a silent rank is not declared dead")
	}
}

// suspended makes a file system that takes no writes until warmUp.
func suspended(t *testing.T) (dir string, warmUp func()) {
	t.Helper()
	img := filepath.Join(t.TempDir(), "img")
	dir = t.TempDir()
	run := func(name string, arg ...string) error {
		out, err := exec.Command(name, arg...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %v: %s", name, err, out)
		}
		return err
	}
	if run("truncate", "-s", "8M", img) != nil || run("mkfs.ext4", "-q", "-F", img) != nil || run("mount", "-o", "loop", img, dir) != nil {
		testkit.Skip(t, "mkfs.ext4 and loop devices")
	}
	t.Cleanup(func() {
		if err := run("umount", dir); err != nil {
			t.Error(err)
		}
	})
	if run("fsfreeze", "-f", dir) != nil {
		testkit.Skip(t, "fsfreeze")
	}
	cold := true
	warmUp = func() {
		if cold && run("fsfreeze", "-u", dir) == nil {
			cold = false
		}
	}
	t.Cleanup(warmUp)
	return dir, warmUp
}

// TestLauncherBeforeConnection: a launcher ends after a rank that has failed, and the
// coordinator notices the end of the launcher first. It names the rank even so.
func TestLauncherBeforeConnection(t *testing.T) {
	t.Parallel()
	d := newStanding(t, 0, true)
	d.rank.ended("mpiexec exited with status 9")
	d.turn()
	d.rank.Close()
	for len(d.losses) == 0 {
		d.turn()
	}
	if got := d.losses[0]; !strings.Contains(got, "its connection") {
		t.Errorf("the rank was lost since %q", got)
	}
}

// TestLauncherAlone: a launcher ends, and the connections of its ranks do not.
func TestLauncherAlone(t *testing.T) {
	t.Parallel()
	d := newStanding(t, 0, true)
	d.rank.ended("mpiexec exited with status 9")
	for len(d.losses) == 0 {
		d.turn()
	}
	if got := d.losses[0]; got != "mpiexec exited with status 9" {
		t.Errorf("the rank was lost since %q", got)
	}
}
