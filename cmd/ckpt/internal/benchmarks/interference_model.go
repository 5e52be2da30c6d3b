package benchmarks

import (
	"context"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/iosched/arbiter"
	"ckpt/image/pfs"
	"ckpt/image/pfs/mix"
)

// An interferenceModel does in virtual time what a lab does on a machine.
type interferenceModel struct {
	sys *pfs.System
	mixture
}

// model predicts turns between the jobs, and the same policies as the order of requests at
// the target.
func (b *interference) model(ctx context.Context, m *mixture, on string) error {
	sys, err := loadOn(on)
	if err != nil {
		return err
	}
	x := &interferenceModel{sys, *m}
	b.Dir, b.On, b.Rounds = "", sys.Name, 1
	for _, level := range []struct {
		name string
		run  func(context.Context, string) (*interferenceRun, error)
	}{{"requests in order", x.requests}, {"turns", x.turns}} {
		s := &interferenceStorage{Name: level.name}
		for _, p := range b.Policies {
			run, err := level.run(ctx, p)
			if err != nil {
				return fmt.Errorf("policy %s: %w", p, err)
			}
			run.policy = p
			s.runs = append(s.runs, run)
		}
		s.summarise(b.Policies)
		b.Storages = append(b.Storages, s)
	}
	return nil
}

// app is a job that writes its checkpoint, a file per rank.
func (x *interferenceModel) app(inst *dataset.Instance, name string) (mix.App, error) {
	s := contenderSpec(inst)
	m, err := job.PlanMemory(inst, s.Mapping, s.MPI)
	if err != nil {
		return mix.App{}, err
	}
	bytes := int64(0)
	for _, src := range m.Sources {
		for _, p := range src.Pieces {
			bytes += p.Bytes
		}
	}
	return mix.App{Name: name, User: labUser, Write: true, Own: true, Processes: inst.NP, Bytes: bytes, Grain: 4 << 20}, nil
}

// labUser has all jobs and the reader, as where they are real.
const labUser = "user"

// apps are the jobs, or the first of them and the files of the reader, which come one after
// the other as if the reader were alone.
func (x *interferenceModel) apps(ctx context.Context, withReader bool) (apps []mix.App, alone []float64, err error) {
	instances := x.mixture.apps
	if withReader {
		instances = instances[:1]
	}
	for i, inst := range instances {
		a, err := x.app(inst, fmt.Sprintf("job %d", i+1))
		if err != nil {
			return nil, nil, err
		}
		apps = append(apps, a)
	}
	if withReader {
		file := mix.App{Name: "reader", User: labUser, Processes: 1, Bytes: x.reader, Grain: readerBuffer}
		one, err := mix.Alone(ctx, x.sys, []mix.App{file}, mix.Options{})
		if err != nil {
			return nil, nil, err
		}
		for i := range readerFiles {
			file.Name = fmt.Sprintf("file %d of the reader", i+1)
			file.Start = readerPause.Seconds() + float64(i)*(one[0]+readerPause.Seconds())
			apps = append(apps, file)
		}
	}
	alone, err = mix.Alone(ctx, x.sys, apps, mix.Options{})
	return apps, alone, err
}

// requests has the target order the requests of all.
func (x *interferenceModel) requests(ctx context.Context, policy string) (*interferenceRun, error) {
	o := mix.Options{}
	if policy != none {
		o.Scheduler = &pfs.Scheduler{Policy: policy}
	}
	return x.run(ctx, func(apps []mix.App, _ []float64) ([]float64, error) {
		r, err := mix.Run(ctx, x.sys, apps, o)
		if err != nil {
			return nil, err
		}
		var flows []float64
		for _, a := range r.Apps {
			flows = append(flows, a.Flow)
		}
		return flows, nil
	})
}

// turns has the arbiter give whole bursts their turns.
func (x *interferenceModel) turns(ctx context.Context, policy string) (*interferenceRun, error) {
	if policy == none {
		return x.requests(ctx, none)
	}
	cost := arbiter.Cost{Switch: seconds(float64(x.sys.Targets.Seek) + 2*float64(x.sys.Host.Latency))}
	return x.run(ctx, func(apps []mix.App, alone []float64) ([]float64, error) {
		var bursts []arbiter.Expected
		for i, a := range apps {
			bursts = append(bursts, arbiter.Expected{App: a.Name, User: a.User, Arrival: seconds(a.Start), Alone: seconds(alone[i]), Bytes: a.Bytes})
		}
		list, err := arbiter.Predict(arbiter.Options{Policy: policy}, cost, bursts)
		if err != nil {
			return nil, err
		}
		var flows []float64
		for _, f := range list {
			flows = append(flows, f.Flow.Seconds())
		}
		return flows, nil
	})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// run makes a run of what a policy does with applications.
func (x *interferenceModel) run(ctx context.Context, flows func([]mix.App, []float64) ([]float64, error)) (*interferenceRun, error) {
	r := &interferenceRun{}
	apps, alone, err := x.apps(ctx, false)
	if err != nil {
		return nil, err
	}
	if r.alone, err = flows(apps[:1], alone[:1]); err != nil {
		return nil, err
	}
	r.alone = append(r.alone, alone[1:]...)
	if len(apps) > 1 {
		if r.jobs.flows, err = flows(apps, alone); err != nil {
			return nil, err
		}
		r.jobs.total = makespan(apps, r.jobs.flows)
	}
	if x.reader == 0 {
		return r, nil
	}
	if apps, alone, err = x.apps(ctx, true); err != nil {
		return nil, err
	}
	all, err := flows(apps, alone)
	if err != nil {
		return nil, err
	}
	r.mixed = together{all[:1], makespan(apps, all)}
	r.files, r.filesAlone = all[1:], alone[1:]
	return r, nil
}

// makespan is when the last application is done.
func makespan(apps []mix.App, flows []float64) (last float64) {
	for i, a := range apps {
		last = max(last, a.Start+flows[i])
	}
	return last
}
