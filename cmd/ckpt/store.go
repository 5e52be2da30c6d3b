package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/image"
)

// splitTarget reads JOB or JOB@N.
func splitTarget(s string) (job string, number int, err error) {
	job, digits, found := strings.Cut(s, "@")
	if !found {
		return job, 0, nil
	}
	number, err = strconv.Atoi(digits)
	if err != nil || number < 1 {
		return "", 0, &coordinator.UsageError{Text: fmt.Sprintf("%q: the number of a checkpoint follows the @", s), Fix: "write JOB@3"}
	}
	return job, number, nil
}

func newListCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [JOB]",
		Short:   "List jobs, or the checkpoints of a job",
		Example: "  ckpt list\n  ckpt list bt.S.4-1",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runListJobs(g)
			}
			return runListCheckpoints(g, args[0])
		},
	}
	g.addStoreFlag(cmd)
	return cmd
}

type jobLine struct {
	Job         string `json:"job"`
	App         string `json:"app"`
	NP          int    `json:"np"`
	Checkpoints []int  `json:"checkpoints"`
	StoredBytes int64  `json:"stored_bytes"`
}

func runListJobs(g *globals) error {
	store, err := g.openStore()
	if err != nil {
		return err
	}
	names, err := store.Jobs()
	if err != nil {
		return err
	}
	lines := []jobLine{}
	var failed error
	for _, name := range names {
		checkpoints, err := g.checkpoints(store, name)
		failed = errors.Join(failed, err)
		line := jobLine{Job: name, Checkpoints: []int{}}
		if status, err := coordinator.Describe(store, name); err == nil {
			line.App, line.NP = status.App, status.NP
		}
		for _, m := range checkpoints {
			line.App, line.NP = m.App, m.NP
			line.Checkpoints = append(line.Checkpoints, m.Number)
			line.StoredBytes += m.StoredBytes
		}
		lines = append(lines, line)
	}
	if g.json {
		return errors.Join(failed, g.printJSON(lines))
	}
	if len(lines) == 0 {
		return g.printf("no jobs in %s\n", g.store)
	}
	var rows [][]string
	for _, l := range lines {
		rows = append(rows, []string{l.Job, l.App, fmt.Sprint(len(l.Checkpoints)), mib(l.StoredBytes)})
	}
	return errors.Join(failed, g.table([]string{"job", "app", "|checkpoints", "|stored MiB"}, rows))
}

// checkpoints reads the manifests of a job. A damaged one is an error beside
// the others.
func (g *globals) checkpoints(store *image.Store, name string) ([]*image.Manifest, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	var list []*image.Manifest
	var failed error
	for _, n := range numbers {
		m, err := job.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		list = append(list, m)
	}
	return list, failed
}

// checkpointLine is a checkpoint in ckpt list and ckpt show.
type checkpointLine struct {
	*coordinator.CheckpointEvent
	App     string              `json:"app"`
	MPI     string              `json:"mpi"`
	Mapping coordinator.Mapping `json:"mapping"`
	Parent  int                 `json:"parent"`
	Created time.Time           `json:"created"`
	Zones   []rankZones         `json:"zones,omitempty"`
}

type rankZones struct {
	Rank     int   `json:"rank"`
	Node     int   `json:"node"`
	Library  int64 `json:"library"`
	Data     int64 `json:"data"`
	Shared   int64 `json:"shared"`
	IOBuffer int64 `json:"iobuffer"`
}

func describeManifest(h coordinator.History, m *image.Manifest, zones bool) checkpointLine {
	line := checkpointLine{CheckpointEvent: h.Describe(m), App: m.App, MPI: m.MPI,
		Mapping: m.Mapping, Parent: m.Parent, Created: m.Created}
	if zones {
		for _, r := range m.Ranks {
			line.Zones = append(line.Zones, rankZones{r.Rank, r.Node, r.Zones.Library, r.Zones.Data, r.Zones.Shared, r.Zones.IOBuffer})
		}
	}
	return line
}

func runListCheckpoints(g *globals, name string) error {
	store, err := g.openStore()
	if err != nil {
		return err
	}
	list, failed := g.checkpoints(store, name)
	if list == nil && failed != nil {
		return failed
	}
	job, err := store.Job(name)
	if err != nil {
		return err
	}
	history := coordinator.ReadHistory(job)
	lines := []checkpointLine{}
	var rows [][]string
	for _, m := range list {
		l := describeManifest(history, m, false)
		lines = append(lines, l)
		rows = append(rows, []string{fmt.Sprint(l.Number), fmt.Sprint(l.Iteration), l.Mapping.Short(),
			l.Created.Local().Format(time.DateTime), mib(l.Bytes.Total()), mib(l.StoredBytes), seconds(l.Latency.Total)})
	}
	if g.json {
		return errors.Join(failed, g.printJSON(lines))
	}
	if len(lines) == 0 {
		return errors.Join(failed, g.printf("job %s has no checkpoints\n", name))
	}
	return errors.Join(failed, g.table([]string{"|number", "|iteration", "ranks per node", "taken", "|memory MiB", "|stored MiB", "|latency"}, rows))
}

func newShowCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show JOB[@N]",
		Short:   "Show a checkpoint zone by zone",
		Long:    "Show a checkpoint, by default the newest, with the zones of each rank.",
		Example: "  ckpt show bt.S.4-1@2 --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return runShow(g, args[0]) },
	}
	g.addStoreFlag(cmd)
	return cmd
}

func runShow(g *globals, target string) error {
	name, number, err := splitTarget(target)
	if err != nil {
		return err
	}
	job, err := g.openJob(name)
	if err != nil {
		return err
	}
	if number == 0 {
		if number, err = job.Latest(); err != nil {
			return err
		}
		if number == 0 {
			return fmt.Errorf("job %s: %w: it has none", name, image.ErrCheckpointNotFound)
		}
	}
	m, err := job.Manifest(number)
	if err != nil {
		return err
	}
	line := describeManifest(coordinator.ReadHistory(job), m, true)
	if g.json {
		return g.printJSON(line)
	}
	if err := g.printCheckpoint(line.CheckpointEvent); err != nil {
		return err
	}
	if err := g.printf("taken      %s by %s under %s, mapping %s\n\n", line.Created.Local().Format(time.DateTime), m.App, m.MPI, line.Mapping.Short()); err != nil {
		return err
	}
	var rows [][]string
	for _, z := range line.Zones {
		rows = append(rows, []string{fmt.Sprint(z.Rank), fmt.Sprint(z.Node), mib(z.Library), mib(z.Data), mib(z.Shared), mib(z.IOBuffer),
			mib(z.Library + z.Data + z.Shared + z.IOBuffer)})
	}
	return g.table([]string{"|rank", "|node", "|library MiB", "|data MiB", "|shared MiB", "|iobuffer MiB", "|total MiB"}, rows)
}

// errDamageFound ends a verification that found damage.
var errDamageFound = errors.New("verification found damage")

func newVerifyCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [JOB[@N]]",
		Short: "Check every byte of checkpoints",
		Long: `Read and check every byte of a checkpoint, of all checkpoints of a job, or of all
jobs. Each damage is named with file, offset and reason.`,
		Example: "  ckpt verify\n  ckpt verify bt.S.4-1@2 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runVerify(cmd.Context(), g, args) },
	}
	g.addStoreFlag(cmd)
	return cmd
}

type verifyResult struct {
	Checkpoints  int          `json:"checkpoints"`
	CheckedBytes int64        `json:"checked_bytes"`
	Damage       []damageLine `json:"damage"`
}

type damageLine struct {
	Job        string `json:"job"`
	Checkpoint int    `json:"checkpoint"`
	File       string `json:"file"`
	Offset     int64  `json:"offset"`
	Reason     string `json:"reason"`
}

func runVerify(ctx context.Context, g *globals, args []string) error {
	store, err := g.openStore()
	if err != nil {
		return err
	}
	targets, total, err := verifyTargets(store, args)
	if err != nil {
		return err
	}
	add, done := g.progress("verify", total)
	result := verifyResult{Damage: []damageLine{}}
	for _, t := range targets {
		report, err := t.job.Verify(ctx, t.number, add)
		if errors.Is(err, image.ErrCheckpointNotFound) && len(targets) > 1 {
			continue // pruned this moment
		}
		if err != nil {
			done()
			return err
		}
		result.Checkpoints++
		result.CheckedBytes += report.CheckedBytes
		for _, d := range report.Damage {
			result.Damage = append(result.Damage, damageLine{t.job.Name(), t.number, d.File, d.Offset, d.Reason})
		}
	}
	done()
	return g.printVerify(result)
}

func (g *globals) printVerify(r verifyResult) error {
	if g.json {
		if err := g.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, d := range r.Damage {
			if err := g.printf("%s@%d: %s at offset %d: %s\n", d.Job, d.Checkpoint, d.File, d.Offset, d.Reason); err != nil {
				return err
			}
		}
		if err := g.printf("checked %s, %s MiB: %s\n", count(r.Checkpoints, "checkpoint"), mib(r.CheckedBytes), count(len(r.Damage), "damaged place")); err != nil {
			return err
		}
	}
	if len(r.Damage) > 0 {
		return fmt.Errorf("%w: %s, the first in %s at offset %d: %s", errDamageFound, count(len(r.Damage), "place"),
			r.Damage[0].File, r.Damage[0].Offset, r.Damage[0].Reason)
	}
	return nil
}

type verifyTarget struct {
	job    *image.Job
	number int
}

// verifyTargets lists what to verify and about how many bytes that is.
func verifyTargets(store *image.Store, args []string) (targets []verifyTarget, total int64, err error) {
	var names []string
	number := 0
	if len(args) == 1 {
		var name string
		if name, number, err = splitTarget(args[0]); err != nil {
			return nil, 0, err
		}
		names = []string{name}
	} else if names, err = store.Jobs(); err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		job, err := store.Job(name)
		if err != nil {
			return nil, 0, err
		}
		numbers := []int{number}
		if number == 0 {
			if numbers, err = job.Checkpoints(); err != nil {
				return nil, 0, err
			}
		}
		for _, n := range numbers {
			targets = append(targets, verifyTarget{job, n})
			if m, err := job.Manifest(n); err == nil {
				for _, f := range m.Files {
					total += f.Bytes
				}
			}
		}
	}
	return targets, total, nil
}

func newPruneCommand(g *globals) *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use:   "prune JOB --keep N",
		Short: "Remove all but the newest checkpoints",
		Long: `Remove all but the newest N checkpoints of a job, running or not. Files of removed
checkpoints that kept ones refer to stay. Checkpoints whose manifest, headers or
indexes are damaged do not count among the N; ckpt verify checks the rest, too.`,
		Example: "  ckpt prune bt.S.4-1 --keep 2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("keep") || keep < 0 {
				return usage(cmd, errors.New("--keep takes how many checkpoints to keep"))
			}
			return runPrune(cmd.Context(), g, args[0], keep)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "number of checkpoints to keep")
	g.addStoreFlag(cmd)
	return cmd
}

func runPrune(ctx context.Context, g *globals, name string, keep int) error {
	job, err := g.openJob(name)
	if err != nil {
		return err
	}
	p, err := coordinator.Prune(ctx, job, keep)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(p)
	}
	if len(p.Damaged) > 0 {
		g.warn("damaged, and not counted among those kept: checkpoints %v; ckpt verify %s says more", p.Damaged, name)
	}
	return g.printf("%s: removed %s, freed %s MiB, kept %d\n", name, count(len(p.Removed), "checkpoint"), mib(p.Freed), len(p.Kept))
}
