package coordinator

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/global"
)

// A fakeProgram is a command whose ranks are goroutines, with what their agents say. Each
// adds up the numbers of its steps; the command prints the sums.
type fakeProgram struct {
	Ranks int           // that greet
	Say   int           // how many ranks each says there are; 0: Ranks
	Sizes []wire.Size   // what the launcher says
	Times int           // how often each greets; 0: once
	Hosts int           // that the ranks are spread over; 0: one
	Steps int           // after which it finalizes
	Pause time.Duration // of a step
	// Dies is the step at which the last rank dies, and the command exits with 9, in the
	// incarnations up to Deaths. Silent has no rank call ckpt_finalize.
	Dies, Deaths int
	Silent       bool
	Hides        bool // the command exits with 0, however its ranks end
	Deserts      bool // its agents end when they have greeted, and it runs on
	Fails        int  // runs in which the last rank dies before it comes
	Stubborn     bool // it ignores CKPT_STOP
	Astray       bool // the last rank is a step further than the others
	Greedy       bool // its first rank says that it holds a cell of the second
	Status       int  // of the command, when it ends by itself
	Version      int  // of the agents; 0: ours
	Say2         int  // ranks from the second incarnation on
	Protect      int  // numbers that each rank protects
	Cells        int  // of an array of all ranks, to which each step is added
	Output       string
}

// command returns the command line of the program.
func (f fakeProgram) command() []string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return []string{os.Args[0], "program", string(b)}
}

// runFakeProgram is the command; it returns its exit status.
func runFakeProgram(text string) int {
	var f fakeProgram
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signal.Ignore(syscall.SIGPIPE)
	fmt.Print(f.Output)
	incarnation, _ := strconv.Atoi(os.Getenv(wire.EnvIncarnation))
	ranks := f.Ranks
	if incarnation > 1 && f.Say2 > 0 {
		ranks, f.Say = f.Say2, f.Say2
	}
	runs, _ := os.ReadFile("runs") // a byte for each run
	if err := os.WriteFile("runs", append(runs, '.'), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var all sync.WaitGroup
	status := make(chan int, 2*ranks+2)
	var greeted sync.WaitGroup
	if len(runs) < f.Fails {
		f.Say, ranks = ranks, ranks-1
		greeted.Add(ranks)
		go func() {
			greeted.Wait()
			time.Sleep(200 * time.Millisecond) // until they have been heard
			status <- 9
		}()
	}
	for rank := range ranks {
		for range max(1, f.Times) {
			all.Go(func() {
				r := &fakeRank{program: f, rank: rank, ranks: ranks, incarnation: incarnation}
				greets := func() {}
				if len(runs) < f.Fails {
					greets = greeted.Done
				}
				if err := r.run(greets, status); err != nil {
					fmt.Fprintf(os.Stderr, "rank %d: %v\n", rank, err)
					status <- 2
				}
			})
		}
	}
	go func() {
		all.Wait()
		status <- f.Status
	}()
	if s := <-status; !f.Hides {
		return s
	}
	return 0
}

// A fakeRank is one rank and its agent.
type fakeRank struct {
	program     fakeProgram
	rank, ranks int
	incarnation int
	link        *wire.Link
	member      *protocol.Member
	welcome     wire.Welcome
	mem         *mpi.Memory
	sum         []byte
	cells       []byte
	first       int // of the cells
}

func (r *fakeRank) run(greeted func(), status chan<- int) error {
	conn, err := wire.Dial(context.Background(), os.Getenv(wire.EnvSocket), os.Getenv(wire.EnvToken))
	if err != nil {
		return err
	}
	defer conn.Close()
	size := r.ranks
	if r.program.Say > 0 {
		size = r.program.Say
	}
	p := &wire.Process{Version: wire.Version, Client: 1, Language: "c", Size: size, Sizes: r.program.Sizes, Name: "n0", PID: os.Getpid(), Program: "/usr/bin/fake"}
	if r.program.Version > 0 {
		p.Version = r.program.Version
	}
	p.Host = fmt.Sprint(r.rank * max(1, r.program.Hosts) / r.ranks)
	if err := wire.Greet(conn, wire.Greeting{Token: os.Getenv(wire.EnvToken), Role: wire.RoleRank, Rank: r.rank, Incarnation: r.incarnation, Process: p}); err != nil {
		return err
	}
	if r.link, err = wire.NewLink(conn, bufio.NewReader(conn)); err != nil {
		return err
	}
	r.link.Send(protocol.Hello{Process: os.Getpid()})
	greeted()
	if r.program.Deserts {
		r.link.Close()
		hang()
	}
	m, err := r.link.Receive()
	if err != nil {
		return nil // refused
	}
	if err := json.Unmarshal(m.(protocol.Welcome).Body, &r.welcome); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	r.link.Send(protocol.Ready{})
	return r.compute(status)
}

// restore allocates the memory of the rank, and fills it from a checkpoint.
func (r *fakeRank) restore() error {
	r.mem = mpi.NewMemory()
	if r.program.Protect > 0 {
		var err error
		if r.sum, err = r.mem.Alloc("sum", zones.Data, zones.Int64, int64(8*r.program.Protect)); err != nil {
			return err
		}
	}
	if r.program.Cells > 0 {
		var err error
		r.first = r.program.Cells * r.rank / r.ranks
		count := r.program.Cells*(r.rank+1)/r.ranks - r.first
		if r.cells, err = r.mem.Alloc("cells", zones.Data, zones.Int64, int64(8*count)); err != nil {
			return err
		}
	}
	if r.welcome.From == 0 {
		return nil
	}
	j, m, err := r.checkpoint()
	if err != nil {
		return err
	}
	if m.Step != int64(2*r.welcome.Iter) || r.welcome.Step != m.Step {
		return fmt.Errorf("step %d and %d of boundary %d", m.Step, r.welcome.Step, r.welcome.Iter)
	}
	regions := r.regions()
	if !job.Dealt(m, r.ranks, r.rank, regions) {
		return j.Load(context.Background(), m, m.Ranks[r.rank].File, r.rank, regions, container.LoadOptions{})
	}
	if err := job.CheckParts(m, r.ranks, r.rank, regions); err != nil {
		return err
	}
	p := j.Parts(m, r.rank, container.LoadOptions{})
	defer p.Close()
	for _, region := range regions {
		if err := p.Load(context.Background(), region); err != nil {
			return err
		}
	}
	return nil
}

// regions returns the memory of the rank, and what of it is a part of an array.
func (r *fakeRank) regions() []zones.Region {
	list := r.mem.Regions()
	for i := range list {
		if list[i].Name == "cells" {
			s := global.Stretch{Cells: int64(r.program.Cells), First: int64(r.first), Count: list[i].Size / 8}
			if r.program.Greedy && r.rank == 0 {
				s.Count++
			}
			list[i].Part = &global.Part{Elem: 8, Axes: []global.Stretch{s}}
		}
	}
	return list
}

func (r *fakeRank) checkpoint() (*image.Job, *image.Manifest, error) {
	store, err := image.OpenStore(vfs.OS{}, r.welcome.StoreDir)
	if err != nil {
		return nil, nil, err
	}
	j, err := store.Job(r.welcome.Job)
	if err != nil {
		return nil, nil, err
	}
	m, err := j.Manifest(r.welcome.From)
	return j, m, err
}

// compute does the steps, as the member lets it.
func (r *fakeRank) compute(status chan<- int) error {
	r.member = protocol.NewMember(r.welcome.Iter)
	messages := make(chan protocol.Message)
	gone := make(chan error, 1)
	go func() {
		for {
			m, err := r.link.Receive()
			if err != nil {
				gone <- err
				return
			}
			messages <- m
		}
	}()
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	step, timer := r.welcome.Iter, time.NewTimer(time.Hour)
	var events []protocol.MemberEvent
	for {
		select {
		case m := <-messages:
			if _, ok := m.(protocol.KillProcess); ok {
				status <- 137
				return nil
			}
			events = append(events, protocol.Received{Message: m})
		case err := <-gone:
			if !errors.Is(err, io.EOF) {
				return err
			}
			status <- 137
			return nil
		case <-beat.C:
			r.link.Send(protocol.Beat{Iter: r.member.Iteration(), Progress: uint64(step), Step: uint64(2 * step)})
		case <-timer.C:
			step++
			r.add(step)
			if r.rank == r.ranks-1 && step == r.program.Dies && r.incarnation <= r.program.Deaths {
				r.link.Close()
				time.Sleep(300 * time.Millisecond) // so that its link is the first that ends; less than settleTime
				status <- 9
				return nil
			}
			if step == r.program.Steps {
				r.finish()
				if r.program.Silent {
					return nil
				}
				events = append(events, protocol.Ended{Body: job.Encode(wire.DoneReport{})})
			} else {
				events = append(events, protocol.Reached{Iter: step})
			}
		}
		for len(events) > 0 {
			ev := events[0]
			events = events[1:]
			for _, a := range r.member.Step(ev) {
				switch a := a.(type) {
				case protocol.Tell:
					r.link.Send(a.Message)
				case protocol.Proceed:
					timer.Reset(r.program.Pause)
				case protocol.BeginDrain:
					events = append(events, protocol.DrainDone{})
				case protocol.BeginWrite:
					events = append(events, r.write(a.Number, step, a.Body))
				case protocol.CancelDrain, protocol.CancelWrite:
				case protocol.Leave:
					if r.program.Stubborn {
						hang()
					}
					return nil
				}
			}
		}
	}
}

// add adds a step to the sum.
func (r *fakeRank) add(step int) {
	if r.sum != nil {
		binary.LittleEndian.PutUint64(r.sum, binary.LittleEndian.Uint64(r.sum)+uint64(step*(r.rank+1)))
	}
	for at := 0; at < len(r.cells); at += 8 {
		c := r.cells[at:]
		binary.LittleEndian.PutUint64(c, binary.LittleEndian.Uint64(c)+uint64(step*(r.first+at/8+1)))
	}
}

// finish prints the sum.
func (r *fakeRank) finish() {
	if r.sum != nil {
		fmt.Printf("rank %d: %d\n", r.rank, binary.LittleEndian.Uint64(r.sum))
	}
	for at := 0; at < len(r.cells); at += 8 {
		fmt.Printf("cell %d: %d\n", r.first+at/8, binary.LittleEndian.Uint64(r.cells[at:]))
	}
}

// write writes the image of the rank.
func (r *fakeRank) write(number, step int, body []byte) protocol.MemberEvent {
	var order wire.WriteOrder
	if err := json.Unmarshal(body, &order); err != nil {
		return protocol.WriteEnded{Text: err.Error()}
	}
	h := container.Header{Job: r.welcome.Job, Number: number, Rank: r.rank, Node: r.welcome.Spec.Mapping.Nodes()[r.rank], Kind: container.KindRank}
	info, err := container.Write(context.Background(), vfs.OS{}, order.Rank, h, r.mem.Regions(), container.WriteOptions{})
	if err != nil {
		return protocol.WriteEnded{Text: err.Error(), Body: wire.EncodeError(err)}
	}
	if r.program.Astray && r.rank == r.ranks-1 {
		step++
	}
	report := wire.WriteReport{Zones: r.mem.Sizes(), File: info.Path, Step: int64(2 * step), Regions: len(r.mem.Regions()),
		Files: []wire.WrittenFile{{Kind: h.Kind, Path: info.Path, Bytes: info.Bytes, Index: info.IndexBlake3}}}
	for _, region := range r.regions() {
		if region.Part != nil {
			report.Global = append(report.Global, image.GlobalPart{Region: region.Name, Part: *region.Part})
		}
	}
	return protocol.WriteDone{Body: job.Encode(report)}
}

// sums is what a program prints that has not been disturbed.
func (f fakeProgram) sums() map[string]bool {
	lines := map[string]bool{}
	for c := range f.Cells {
		lines[fmt.Sprintf("cell %d: %d", c, (c+1)*f.Steps*(f.Steps+1)/2)] = true
	}
	for rank := range f.Ranks {
		if f.Protect == 0 {
			break
		}
		lines[fmt.Sprintf("rank %d: %d", rank, (rank+1)*f.Steps*(f.Steps+1)/2)] = true
	}
	return lines
}

// hang waits until the process is killed. Without cgo, Go ends a process whose goroutines all
// wait for each other; one that sleeps does not count.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
