package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// TestCopyJoint: files of ranks go together into the files of each layout, with any codec. A
// second version refers to the first for what has not changed, also where that is in joint files.
// A damaged file is read elsewhere, once that is known, and else ends the copy of all ranks.
func TestCopyJoint(t *testing.T) {
	t.Parallel()
	for _, settings := range []plan.Settings{{Layout: plan.Aggregated}, {Layout: plan.Aggregated, Aggregators: 3}, {Layout: plan.Shared},
		{Layout: plan.Shared, Strategy: plan.Individual}} {
		for _, setting := range []codec.Setting{codec.UseNone, codec.UseS2} {
			t.Run(fmt.Sprintf("%s,%s,%d,%v", settings.Layout, settings.Strategy, settings.Aggregators, setting), func(t *testing.T) {
				c := newJointCopy(t, settings, setting)
				first := c.version(1)
				c.from = [2]string{"/lost", "/node"} // the file of rank 2 is damaged where it is looked for
				m, err := c.copy(1, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.g.check(m, first); err != nil {
					t.Fatal(err)
				}
				c.memory[1][0].Mem[5000] ^= 1
				second := c.version(2)
				again, err := c.copy(2, m)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.g.check(again, second); err != nil {
					t.Fatal(err)
				}
				if again.StoredBytes > m.StoredBytes/2 {
					t.Errorf("the second version takes %d bytes, the first %d", again.StoredBytes, m.StoredBytes)
				}
				c.version(3)
				c.from[1] = ""
				_, err = c.copy(3, nil) // what a base has is not read
				if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) || filepath.Base(damage.File) != "rank-2.img" {
					t.Errorf("without a sound file: %v", err)
				}
				if _, err := c.g.job.Manifest(3); !errors.Is(err, ErrCheckpointNotFound) {
					t.Errorf("version 3 is there: %v", err)
				}
			})
		}
	}
}

// A jointCopy is a job whose ranks have files of their own, which go into joint ones.
type jointCopy struct {
	t      *testing.T
	g      *groupJob
	memory [][]zones.Region
	files  [4]container.File // of ranks, of the last version
	from   [2]string         // directories of the files: the one that is read first, and another
}

func newJointCopy(t *testing.T, settings plan.Settings, setting codec.Setting) *jointCopy {
	var ranks []plan.Source
	for i := range 5 {
		ranks = append(ranks, plan.Source{Rank: i, Node: i / 2})
	}
	c := &jointCopy{t: t, g: newGroupJob(t, ranks, settings, setting, true)}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range ranks {
		mem := vfs.Aligned(300<<10 + 4096*i)
		for k := range mem {
			mem[k] = byte(rng.IntN(3))
		}
		still := vfs.Aligned(1 << 20)
		for k := range still[:900<<10] {
			still[k] = byte(rng.IntN(200))
		}
		c.memory = append(c.memory, []zones.Region{
			{Name: "u", Zone: zones.Data, Elem: zones.Bytes, Mem: mem, Size: int64(len(mem))},
			{Name: "v", Zone: zones.Data, Elem: zones.Bytes, Mem: still, Size: int64(len(still))},
		})
	}
	c.memory[4] = nil // it has nothing to store
	return c
}

// version writes the files of the ranks into two directories, and damages one in the first.
func (c *jointCopy) version(number int) [][]zones.Region {
	for _, dir := range []string{"/node", "/lost"} {
		if err := durable.MkdirAll(c.g.fs, filepath.Join(dir, container.FormatNumber(number))); err != nil {
			c.t.Fatal(err)
		}
		for i := range 4 {
			opt := container.WriteOptions{Codec: container.NewCodec(c.g.codec, 0), History: container.NewHistory()}
			h := container.Header{Job: testJob, Number: number, Rank: i, Node: i / 2, Kind: container.KindRank}
			info, err := container.Write(c.t.Context(), c.g.fs, filepath.Join(dir, c.path(number, i)), h, c.memory[i], opt)
			if err != nil {
				c.t.Fatal(err)
			}
			c.files[i] = container.File{Path: c.path(number, i), Kind: container.KindRank, Ranks: []int{i}, Node: i / 2, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}
		}
	}
	f, err := c.g.fs.OpenWrite(filepath.Join("/lost", c.path(number, 2)))
	if err == nil {
		_, err = f.WriteAt([]byte("damage"), 20000)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return copyOf(c.memory)
}

func (c *jointCopy) path(number, rank int) string {
	return fmt.Sprintf("%s/rank-%d.img", container.FormatNumber(number), rank)
}

// copy commits a version, which may refer to base.
func (c *jointCopy) copy(number int, base *Manifest) (*Manifest, error) {
	tx, err := c.g.job.Begin(number)
	if err != nil {
		return nil, err
	}
	defer tx.Abort()
	n, err := container.JointFiles(c.g.settings, c.g.ranks)
	if err != nil {
		return nil, err
	}
	paths, err := tx.CreateJoint(c.g.settings.Layout, n)
	if err != nil {
		return nil, err
	}
	kind := container.KindAggregated
	if c.g.settings.Layout == plan.Shared {
		kind = container.KindJob
	}
	table := container.NewTable(c.g.ranks)
	infos := make([]container.JointInfo, len(c.g.ranks))
	all, ctx := errgroup.WithContext(c.t.Context())
	for i := range c.g.ranks {
		all.Go(func() (err error) {
			joint := container.Joint{Settings: c.g.settings, Ranks: c.g.ranks, Rank: i, Paths: paths, Network: table.Seat(i)}
			infos[i], err = container.CopyJoint(ctx, c.source(i, base), c.g.fs, joint, container.Header{Job: testJob, Number: number, Kind: kind})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	m := testManifest(number)
	m.NP, m.Mapping, m.Library = len(c.g.ranks), nil, nil
	return m, c.g.commit(c.t.Context(), tx, m, infos)
}

// source is the file of a rank.
func (c *jointCopy) source(rank int, base *Manifest) container.JointSource {
	if len(c.memory[rank]) == 0 {
		return container.JointSource{}
	}
	place := func(dir string) container.Place {
		p := c.g.job.Place()
		p.FS, p.Dir = c.g.fs, dir
		return p
	}
	s := container.JointSource{Place: place(c.from[0])}
	s.File = c.files[rank]
	if c.from[1] != "" {
		s.Again = func(context.Context, error) (container.Place, error) { return place(c.from[1]), nil }
	}
	if base != nil {
		of, err := base.file(base.Ranks[rank].File)
		if err != nil {
			c.t.Error(err)
		}
		s.Base = &container.Base{Place: c.g.job.Place(), File: of, Number: base.Number}
	}
	return s
}
