package plan_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"ckpt/image/plan"

	"pgregory.net/rapid"
)

// TestPlan carries out random plans of a job: every byte is written once and is
// where Places says, within buffers and stripes, and the summary counts what
// happened. However the shared file is written, it is the same.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := genSources(t)
		place := genPlace(t)
		m := newMachine(sources)
		var shared []byte
		for range 6 {
			settings := genSettings(t, sources, place)
			p, err := plan.New(sources, settings)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.run(p, order(t, p)); err != nil {
				t.Fatalf("%+v: %v", p.Settings, err)
			}
			if err := m.check(p, sources); err != nil {
				t.Fatalf("%+v: %v", p.Settings, err)
			}
			checkFiles(t, p, sources)
			checkOwners(t, p, m, sources)
			checkSummary(t, p, m, sources)
			if p.Settings.Layout != plan.Shared {
				continue
			}
			if shared == nil {
				shared = m.files[0]
			}
			if !bytes.Equal(shared, m.files[0]) {
				t.Fatalf("%+v: another shared file than with other settings", p.Settings)
			}
		}
	})
}

// checkFiles checks the number of files and whose they are.
func checkFiles(t *rapid.T, p *plan.Plan, sources []plan.Source) {
	if s := p.Settings; s.P4 && (s.Layout != plan.Shared || s.Strategy != plan.TwoPhase) {
		t.Fatalf("%+v: P4 without OSTs to divide", s)
	}
	want := map[plan.Layout]int{
		plan.PerRank:    len(sources),
		plan.Aggregated: p.Settings.Aggregators,
		plan.Shared:     1,
	}[p.Settings.Layout]
	if len(p.Files) != want {
		t.Fatalf("%d files, want %d", len(p.Files), want)
	}
	seen := make(map[int]bool)
	for _, f := range p.Files {
		_, writes := writer(p, f.Rank)
		if seen[f.Rank] || !writes {
			t.Fatalf("files %+v: rank %d twice, or no writer", p.Files, f.Rank)
		}
		seen[f.Rank] = true
	}
	if !slices.IsSortedFunc(p.Writers, func(a, b plan.Writer) int { return a.Rank - b.Rank }) {
		t.Fatalf("writers not in order: %+v", p.Writers)
	}
}

func writer(p *plan.Plan, rank int) (plan.Writer, bool) {
	for _, w := range p.Writers {
		if w.Rank == rank {
			return w, true
		}
	}
	return plan.Writer{}, false
}

// checkOwners checks who wrote into the stripes of the shared file.
func checkOwners(t *rapid.T, p *plan.Plan, m *machine, sources []plan.Source) {
	s := p.Settings
	if s.Layout != plan.Shared {
		return
	}
	ranks := ranksOfStripes(p, sources)[0]
	osts := make(map[int]map[int]bool)
	for stripe, by := range m.writers[0] {
		if s.Strategy == plan.Individual {
			for rank := range by {
				if !ranks[stripe][rank] {
					t.Fatalf("stripe %d: rank %d wrote into it and has nothing there", stripe, rank)
				}
			}
			continue
		}
		if len(by) > 1 {
			t.Fatalf("stripe %d has %d writers", stripe, len(by))
		}
		ost := (s.FirstOST + stripe) % s.StripeCount
		for rank := range by {
			w, _ := writer(p, rank)
			if s.Strategy == plan.TwoPhase && !slices.Contains(w.OSTs, ost) {
				t.Fatalf("stripe %d on OST %d: written by rank %d, which has %v", stripe, ost, rank, w.OSTs)
			}
			if first := firstRank(p, sources, stripe); !slices.Contains(w.Ranks, first) {
				t.Fatalf("stripe %d begins with rank %d: written by rank %d for %v", stripe, first, rank, w.Ranks)
			}
			if osts[ost] == nil {
				osts[ost] = make(map[int]bool)
			}
			osts[ost][rank] = true
		}
	}
	if s.Strategy == plan.TwoPhase && !s.P4 {
		for ost, by := range osts {
			if len(by) > 1 {
				t.Fatalf("OST %d has %d writers without P4", ost, len(by))
			}
		}
	}
	// The header belongs to the owner of the first stripe.
	if len(ranks) == 0 || len(ranks[len(ranks)-1]) == 0 {
		return // no data
	}
	owner, _ := writer(p, p.Files[0].Rank)
	if by := m.writers[0][0]; s.Strategy != plan.Individual && len(by) > 0 && !by[owner.Rank] {
		t.Fatalf("the header belongs to rank %d, the first stripe to %v", owner.Rank, by)
	}
	if _, offsets := p.Places(owner.Rank); s.Strategy == plan.Individual && p.WriterSummary(owner.Rank).Bytes == 0 {
		t.Fatalf("the header belongs to rank %d, which has nothing at %v", owner.Rank, offsets)
	}
	if s.Strategy == plan.TwoPhase && !slices.Contains(owner.OSTs, s.FirstOST) {
		t.Fatalf("the header on OST %d belongs to rank %d, which has %v", s.FirstOST, owner.Rank, owner.OSTs)
	}
}

// ranksOfStripes tells whose bytes are in each stripe of each file.
func ranksOfStripes(p *plan.Plan, sources []plan.Source) [][]map[int]bool {
	ranks := stripes(p)
	for _, src := range sources {
		file, offsets := p.Places(src.Rank)
		for i, piece := range src.Pieces {
			for at := offsets[i]; at < offsets[i]+piece.Bytes; at += page {
				ranks[file][at/p.Settings.StripeSize][src.Rank] = true
			}
		}
	}
	return ranks
}

// firstRank tells whose byte is the first in a stripe.
func firstRank(p *plan.Plan, sources []plan.Source, stripe int) int {
	size := p.Settings.StripeSize
	for _, src := range sources { // in the shared file, in order of rank
		_, offsets := p.Places(src.Rank)
		for i, piece := range src.Pieces {
			if piece.Bytes > 0 && offsets[i] < int64(stripe+1)*size && offsets[i]+piece.Bytes > int64(stripe)*size {
				return src.Rank
			}
		}
	}
	return -1
}

// checkSummary counts again what Summary counts.
func checkSummary(t *rapid.T, p *plan.Plan, m *machine, sources []plan.Source) {
	s := p.Summary()
	if again := p.Summary(); !reflect.DeepEqual(s, again) {
		t.Fatalf("two summaries differ: %+v, %+v", s, again)
	}
	var total int64
	node := make(map[int]int)
	for _, src := range sources {
		node[src.Rank] = src.Node
		for _, piece := range src.Pieces {
			total += piece.Bytes
		}
	}
	if s.Bytes != total || s.InPlaceBytes+s.SameNodeBytes+s.OtherNodeBytes != total {
		t.Fatalf("%d bytes: %+v", total, s.Work)
	}
	var work, most plan.Work
	for _, w := range s.Writers {
		var own plan.Work
		buffer := make([]int64, 2)
		for r := range p.WriterPlan(w.Rank) {
			var used int64
			for _, g := range r.Gathers {
				switch {
				case g.From == w.Rank:
					own.InPlaceBytes += g.Bytes
				case node[g.From] == node[w.Rank]:
					own.SameNodeBytes += g.Bytes
				default:
					own.OtherNodeBytes += g.Bytes
				}
				if g.From != w.Rank {
					own.Gathers++
					used = max(used, g.Buffer+g.Bytes)
				}
			}
			for _, wr := range r.Writes {
				own.Bytes += wr.Bytes
			}
			half := own.Rounds % 2
			if !p.Settings.P3 {
				half = 0
			}
			buffer[half] = max(buffer[half], used)
			own.Rounds++
			own.Writes += int64(len(r.Writes))
		}
		own.BufferBytes = buffer[0] + buffer[1]
		if own != w.Work {
			t.Fatalf("rank %d: %+v, counted %+v", w.Rank, w.Work, own)
		}
		asked := p.Settings.Buffer
		if p.Settings.P3 {
			asked *= 2
		}
		if own.BufferBytes > asked {
			t.Fatalf("rank %d: %d bytes of buffer, asked for %d", w.Rank, own.BufferBytes, asked)
		}
		most.Rounds = max(most.Rounds, own.Rounds)
		most.BufferBytes = max(most.BufferBytes, own.BufferBytes)
		work.Writes += own.Writes
		work.Rounds += own.Rounds
	}
	if work.Writes != s.Writes || work.Rounds != s.Rounds || most.Rounds != s.MaxRounds || most.BufferBytes != s.PeakBuffer {
		t.Fatalf("%+v, at most %d rounds and %d of buffer: counted %+v, %+v", s.Work, s.MaxRounds, s.PeakBuffer, work, most)
	}
	var stripes, shared, contended int64
	per := make([]int64, p.Settings.StripeCount)
	for f, stripesOfFile := range ranksOfStripes(p, sources) {
		for stripe, ranks := range stripesOfFile {
			if len(ranks) > 0 {
				stripes++
				per[(p.Settings.FirstOST+f+stripe)%p.Settings.StripeCount]++
			}
			if len(ranks) > 1 {
				shared++
			}
			if len(m.writers[f][stripe]) > 1 {
				contended++
			}
		}
	}
	if s.Stripes != stripes || s.SharedStripes != shared || s.ContendedStripes != contended || !slices.Equal(s.StripesPerOST, per) {
		t.Fatalf("stripes %d, shared %d, contended %d, per OST %v: counted %d, %d, %d, %v",
			s.Stripes, s.SharedStripes, s.ContendedStripes, s.StripesPerOST, stripes, shared, contended, per)
	}
	checkWriters(t, p, m, &s)
	if aligned := p.Settings.Layout == plan.Shared && !p.Settings.Unaligned; (aligned || p.Settings.Layout == plan.PerRank) && shared > 0 {
		t.Fatalf("%d shared stripes", shared)
	}
}

// checkWriters counts the writers of each OST in the files that the machine wrote.
func checkWriters(t *rapid.T, p *plan.Plan, m *machine, s *plan.Summary) {
	osts := p.Settings.StripeCount
	all := make([]map[int]bool, osts)
	for ost := range all {
		all[ost] = make(map[int]bool)
	}
	most := 0
	for f, stripes := range m.writers {
		into := make([]map[int]bool, osts)
		for stripe, ranks := range stripes {
			ost := (p.Settings.FirstOST + f + stripe) % osts
			if into[ost] == nil {
				into[ost] = make(map[int]bool)
			}
			maps.Copy(into[ost], ranks)
			maps.Copy(all[ost], ranks)
			most = max(most, len(into[ost]))
		}
	}
	each := make([]int64, osts)
	for ost := range all {
		each[ost] = int64(len(all[ost]))
	}
	if !slices.Equal(s.WritersPerOST, each) || s.MaxWriters != slices.Max(each) || s.MaxFileWriters != int64(most) {
		t.Fatalf("writers per OST %v, at most %d, %d into one file: counted %v, %d",
			s.WritersPerOST, s.MaxWriters, s.MaxFileWriters, each, most)
	}
}

// TestDeterminism: the same input makes the same plan, and a summary that reads
// back from JSON.
func TestDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := genSources(t)
		settings := genSettings(t, sources, genPlace(t))
		var plans [2]*plan.Plan
		for i := range plans {
			var err error
			if plans[i], err = plan.New(sources, settings); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(plans[0], plans[1]) {
			t.Fatal("two plans differ")
		}
		for _, w := range plans[0].Writers {
			a, b := slices.Collect(plans[0].WriterPlan(w.Rank)), slices.Collect(plans[1].WriterPlan(w.Rank))
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("the rounds of rank %d differ", w.Rank)
			}
		}
		// The settings in effect make the same plan again.
		again, err := plan.New(sources, plans[0].Settings)
		if err != nil || !reflect.DeepEqual(again, plans[0]) {
			t.Fatalf("the settings in effect, %+v, make another plan: %v", plans[0].Settings, err)
		}
		s := plans[0].Summary()
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back plan.Summary
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		for i := range s.Writers {
			s.Writers[i].Ranks = nil // not in the document
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("summary %+v comes back as %+v", s, back)
		}
	})
}

// TestStopEarly: a reader of rounds may stop at any.
func TestStopEarly(t *testing.T) {
	for _, strategy := range []plan.Strategy{plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual} {
		p, err := plan.New(job("2", 10*page, 200*page), plan.Settings{
			Layout: plan.Shared, Strategy: strategy, StripeSize: 64 << 10, Buffer: 16 * page,
		})
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Collect(p.WriterPlan(0))
		for n := range len(all) {
			i := 0
			for r := range p.WriterPlan(0) {
				if !reflect.DeepEqual(r, all[i]) {
					t.Fatalf("%s: round %d differs", strategy, i)
				}
				if i++; i > n {
					break
				}
			}
		}
		if len(all) < 10 {
			t.Fatalf("%s: %d rounds, too few for this test", strategy, len(all))
		}
	}
}
