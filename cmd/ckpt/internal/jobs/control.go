package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
)

// contact connects to the coordinator of a running job.
func contact(ctx context.Context, g *ui.Globals, name string) (*wire.Client, error) {
	job, err := g.OpenJob(name)
	if err != nil {
		return nil, err
	}
	client, err := wire.Contact(ctx, job)
	if err != nil {
		return nil, ui.OfJob(name, err)
	}
	return client, nil
}

func newCheckpointCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint JOB",
		Short:   "Take a checkpoint of a running job now",
		Long:    "Take a checkpoint of a running job at the next iteration boundary, and wait until it is durable.",
		Example: "  ckpt checkpoint bt.S.4-1 --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runCheckpoint(cmd.Context(), g, args[0]) },
	}
	g.AddStoreFlag(cmd)
	return cmd
}

func runCheckpoint(ctx context.Context, g *ui.Globals, job string) error {
	client, err := contact(ctx, g, job)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Checkpoint()
	if err != nil {
		return fmt.Errorf("job %s: %w", job, err)
	}
	return g.PrintCheckpoint(cp)
}

func newStopCommand(g *ui.Globals) *cobra.Command {
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
	g.AddStoreFlag(cmd)
	return cmd
}

func runStop(ctx context.Context, g *ui.Globals, j string, now bool) error {
	client, err := contact(ctx, g, j)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Stop(now)
	if errors.Is(err, wire.ErrNotRunning) {
		return fmt.Errorf("job %s: %w", j, err)
	}
	if err != nil {
		return ui.WithHint(fmt.Errorf("job %s was not stopped: %w", j, err), "ckpt stop "+j+" --now stops it without a checkpoint")
	}
	if err := awaitEnd(ctx, g, j); err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Job        string               `json:"job"`
			Stopped    bool                 `json:"stopped"`
			Checkpoint *job.CheckpointEvent `json:"last_checkpoint"`
		}{j, true, cp})
	}
	if cp == nil {
		return g.Printf("%s stopped\n", j)
	}
	return g.Printf("%s stopped after checkpoint %d%s\n", j, cp.Number, ui.At(cp.Iteration))
}

// awaitEnd waits until the coordinator has left, so that ckpt restart works as soon
// as ckpt stop has returned.
func awaitEnd(ctx context.Context, g *ui.Globals, name string) error {
	job, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := coordinator.AwaitEnd(ctx, job); errors.Is(err, context.DeadlineExceeded) {
		g.Warn("%s has stopped, but its coordinator is still cleaning up", name)
	} else if err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// endTime is how long the coordinator of a stopped job may take to clean up.
const endTime = 10 * time.Second
