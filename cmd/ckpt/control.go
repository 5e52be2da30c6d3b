package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
)

// contact connects to the coordinator of a running job.
func (g *globals) contact(ctx context.Context, name string) (*coordinator.Client, error) {
	job, err := g.openJob(name)
	if err != nil {
		return nil, err
	}
	client, err := coordinator.Contact(ctx, job.Dir())
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", name, err)
	}
	return client, nil
}

func newCheckpointCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint JOB",
		Short:   "Take a checkpoint of a running job now",
		Long:    "Take a checkpoint of a running job at the next iteration boundary, and wait until it is durable.",
		Example: "  ckpt checkpoint bt.S.4-1 --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runCheckpoint(cmd.Context(), g, args[0]) },
	}
	g.addStoreFlag(cmd)
	return cmd
}

func runCheckpoint(ctx context.Context, g *globals, job string) error {
	client, err := g.contact(ctx, job)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Checkpoint()
	if err != nil {
		return fmt.Errorf("job %s: %w", job, err)
	}
	return g.printCheckpoint(cp)
}

func (g *globals) printCheckpoint(cp *coordinator.CheckpointEvent) error {
	if cp == nil {
		return nil // the answer has no checkpoint
	}
	if g.json {
		return g.printJSON(cp)
	}
	l := cp.Latency
	of := ""
	if len(cp.Of) > 0 {
		of = ", " + ranks(cp.Of)
	}
	return g.printf("checkpoint %d of %s%s at iteration %d\n"+
		"in memory  library %s, data %s, shared %s, iobuffer %s MiB (%s)\n"+
		"stored     %s MiB in %d files\n"+
		"latency    %s = %s coordination + %s management + %s storage; the application stood still for %s\n",
		cp.Number, cp.Job, of, cp.Iteration, mib(cp.Bytes.Library), mib(cp.Bytes.Data), mib(cp.Bytes.Shared), mib(cp.Bytes.IOBuffer),
		count(cp.Ranks, "rank"), mib(cp.StoredBytes), cp.Files, seconds(l.Total), seconds(l.Coordination), seconds(l.Management), seconds(l.Storage),
		seconds(cp.Pause))
}

func newStopCommand(g *globals) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a running job after a last checkpoint",
		Long: `Stop a running job after a last checkpoint, so that ckpt restart continues it
there. If that checkpoint fails, the job continues.`,
		Example: "  ckpt stop bt.S.4-1\n  ckpt stop bt.S.4-1 --now",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runStop(cmd.Context(), g, args[0], now) },
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop at once, without a checkpoint")
	g.addStoreFlag(cmd)
	return cmd
}

func runStop(ctx context.Context, g *globals, job string, now bool) error {
	client, err := g.contact(ctx, job)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Stop(now)
	if errors.Is(err, coordinator.ErrNotRunning) {
		return fmt.Errorf("job %s: %w", job, err)
	}
	if err != nil {
		return hinted{fmt.Errorf("job %s was not stopped: %w", job, err), "ckpt stop " + job + " --now stops it without a checkpoint"}
	}
	if err := g.awaitEnd(ctx, job); err != nil {
		return err
	}
	if g.json {
		return g.printJSON(struct {
			Job        string                       `json:"job"`
			Stopped    bool                         `json:"stopped"`
			Checkpoint *coordinator.CheckpointEvent `json:"checkpoint"`
		}{job, true, cp})
	}
	if cp == nil {
		return g.printf("%s stopped\n", job)
	}
	return g.printf("%s stopped after checkpoint %d at iteration %d\n", job, cp.Number, cp.Iteration)
}

// awaitEnd waits until the coordinator has left, so that ckpt restart works as soon
// as ckpt stop has returned.
func (g *globals) awaitEnd(ctx context.Context, name string) error {
	store, err := g.openStore()
	if err != nil {
		return err
	}
	job, err := store.Job(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := coordinator.AwaitEnd(ctx, job); errors.Is(err, context.DeadlineExceeded) {
		g.warn("%s has stopped, but its coordinator is still cleaning up", name)
	} else if err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// endTime is how long the coordinator of a stopped job may take to clean up.
const endTime = 10 * time.Second

func newStatusCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status [JOB]",
		Short:   "Show the state of jobs",
		Example: "  ckpt status\n  ckpt status bt.S.4-1 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runStatus(cmd.Context(), g, args) },
	}
	g.addStoreFlag(cmd)
	return cmd
}

func runStatus(ctx context.Context, g *globals, names []string) error {
	store, err := g.openStore()
	if err != nil {
		return err
	}
	one := len(names) == 1
	if !one {
		if names, err = store.Jobs(); err != nil {
			return err
		}
	}
	jobs := []*coordinator.JobStatus{}
	var failed error
	for _, name := range names {
		s, err := coordinator.Inspect(ctx, store, name)
		if err != nil {
			if one {
				return err
			}
			failed = errors.Join(failed, err)
			continue
		}
		jobs = append(jobs, s)
	}
	switch {
	case g.json && one:
		err = g.printJSON(jobs[0])
	case g.json:
		err = g.printJSON(jobs)
	default:
		err = g.printStatus(jobs)
	}
	return errors.Join(failed, err)
}

func (g *globals) printStatus(jobs []*coordinator.JobStatus) error {
	if len(jobs) == 0 {
		return g.printf("no jobs in %s\n", g.store)
	}
	var rows [][]string
	for _, j := range jobs {
		state := j.State
		if j.Phase != "" {
			state += ", " + j.Phase
		}
		rows = append(rows, []string{j.Job, j.App, j.Mapping.Short(), state,
			fmt.Sprintf("%d/%d", j.Iteration, j.Iterations), fmt.Sprint(j.Checkpoints), short(j.Digest)})
	}
	return g.table([]string{"job", "app", "ranks per node", "state", "|iteration", "|checkpoints", "digest"}, rows)
}

func short(digest string) string { return strings.TrimSpace(digest[:min(12, len(digest))]) }
