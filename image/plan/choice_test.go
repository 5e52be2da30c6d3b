package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ckpt/image/plan"
)

// TestAggregators is who writes for whom: WRITER<FIRST-LAST of its ranks.
func TestAggregators(t *testing.T) {
	shared := plan.Settings{Layout: plan.Shared}
	with := func(s plan.Settings, change func(*plan.Settings)) plan.Settings {
		change(&s)
		return s
	}
	number := func(n int) func(*plan.Settings) { return func(s *plan.Settings) { s.Aggregators = n } }
	osts := func(n, osts int, p4 bool) plan.Settings {
		return plan.Settings{Layout: plan.Shared, Aggregators: n, StripeCount: osts, P4: p4}
	}
	aggregated := plan.Settings{Layout: plan.Aggregated}
	dynamic := plan.Settings{Layout: plan.Shared, Strategy: plan.Dynamic}
	for _, test := range []struct {
		mapping  string
		settings plan.Settings
		want     string
	}{
		// one per node, then spread evenly
		{"8,8,4", shared, "0<0-19 8<0-19 16<0-19"},
		{"8,8,4", with(shared, number(2)), "0<0-19 8<0-19"},
		{"8,8,4", with(shared, number(5)), "0<0-19 4<0-19 8<0-19 12<0-19 16<0-19"},
		{"8,8,4", with(shared, number(7)), "0<0-19 2<0-19 5<0-19 8<0-19 12<0-19 16<0-19 18<0-19"},
		{"1,4", with(shared, number(4)), "0<0-4 1<0-4 2<0-4 3<0-4"},
		{"8,8,4", aggregated, "0<0-7 8<8-15 16<16-19"},
		{"8,8,4", with(aggregated, number(plan.Auto)), "0<0-7 8<8-15 16<16-19"},
		{"8,8,4", with(aggregated, number(1)), "0<0-19"},
		{"8,8,4", with(aggregated, number(2)), "0<0-7 8<8-19"},
		{"8,8,4", with(aggregated, number(4)), "0<0-3 4<4-7 8<8-15 16<16-19"},
		{"2,1", with(aggregated, number(3)), "0<0-0 1<1-1 2<2-2"},
		{"8,8,4", dynamic, "0<0-7 8<8-15 16<16-19"},
		{"8,8,4", with(dynamic, number(5)), "0<0-3 4<4-7 8<8-11 12<12-15 16<16-19"},
		{"2,2", plan.Settings{}, "0<0-0 1<1-1 2<2-2 3<3-3"},
		{"2,2", plan.Settings{Layout: plan.Shared, Strategy: plan.Individual}, "0<0-0 1<1-1 2<2-2 3<3-3"},
		// at most one per OST
		{"2,2,2", osts(0, 2, false), "0<0-5 2<0-5"},
		// automatic: one per OST, or each the same number of OSTs
		{"8,8", osts(plan.Auto, 4, false), "0<0-15 4<0-15 8<0-15 12<0-15"},
		{"3,2", osts(plan.Auto, 8, false), "0<0-4 1<0-4 3<0-4 4<0-4"},
		{"3,2", osts(plan.Auto, 7, true), "0<0-4"},
		{"8", osts(plan.Auto, 2, true), "0<0-7 4<0-7"},
		{"2,2,2,2", osts(plan.Auto, 2, true), "0<0-3 2<0-3 4<4-7 6<4-7"},
		// with P4: groups are a multiple of the OSTs, the last takes the rest
		{"3,3,3", osts(0, 2, true), "0<0-1 1<0-1 2<2-3 3<2-3 4<4-5 5<4-5 6<6-8 7<6-8"},
		{"3,3,3", osts(4, 2, true), "0<0-3 3<0-3 4<4-8 6<4-8"},
		{"3,3,3", osts(1, 2, true), "0<0-8"},
	} {
		p := mustPlan(t, job(test.mapping, 64<<10), test.settings)
		var table []string
		for _, w := range p.Writers {
			table = append(table, fmt.Sprintf("%d<%d-%d", w.Rank, w.Ranks[0], w.Ranks[len(w.Ranks)-1]))
		}
		if got := strings.Join(table, " "); got != test.want {
			t.Errorf("%s, %+v:\n got %s\nwant %s", test.mapping, test.settings, got, test.want)
		}
		if p.Settings.Layout != plan.PerRank && p.Settings.Strategy != plan.Individual && p.Settings.Aggregators != len(p.Writers) {
			t.Errorf("%+v: %d writers", p.Settings, len(p.Writers))
		}
	}
}

// TestCyclicMapping: ranks dealt over the nodes. A file has the ranks of a node;
// the groups of a shared file are of consecutive ranks.
func TestCyclicMapping(t *testing.T) {
	sources := job("6", 64<<10)
	for i := range sources {
		sources[i].Node = i % 2
	}
	for _, test := range []struct {
		settings plan.Settings
		want     string
	}{
		{plan.Settings{Layout: plan.Aggregated}, "0<[0 2 4] 1<[1 3 5]"},
		{plan.Settings{Layout: plan.Aggregated, Aggregators: 4}, "0<[0] 1<[1] 2<[2 4] 3<[3 5]"},
		{plan.Settings{Layout: plan.Shared, Strategy: plan.Dynamic}, "0<[0 1 2] 3<[3 4 5]"},
		{plan.Settings{Layout: plan.Shared, StripeCount: 4, Aggregators: 4}, "0<[0 1 2 3 4 5] 1<[0 1 2 3 4 5] 2<[0 1 2 3 4 5] 3<[0 1 2 3 4 5]"},
	} {
		var table []string
		for _, w := range mustPlan(t, sources, test.settings).Writers {
			table = append(table, fmt.Sprintf("%d<%v", w.Rank, w.Ranks))
		}
		if got := strings.Join(table, " "); got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test.settings, got, test.want)
		}
	}
}

// TestRounds counts rounds and writes where they can be told by hand.
func TestRounds(t *testing.T) {
	const MiB = 1 << 20
	for _, test := range []struct {
		name           string
		sources        []plan.Source
		settings       plan.Settings
		rounds, writes int64
		largest        int64 // write
	}{
		// 64 stripes, one owner of all: joined up to the buffer
		{"one aggregator", job("4", 16*MiB), plan.Settings{Layout: plan.Shared, Buffer: 10 * MiB}, 7, 7, 10 * MiB},
		// the buffer holds 2 stripes and a half
		{"odd buffer", job("4", 16*MiB), plan.Settings{Layout: plan.Shared, Buffer: 10 * MiB, StripeSize: 4 * MiB}, 8, 8, 8 * MiB},
		// one stripe here, one there: nothing to join
		{"one per OST", job("1,1,1,1", 16*MiB), plan.Settings{Layout: plan.Shared, StripeCount: 4}, 4, 64, MiB},
		// four OSTs side by side, of 16
		{"range of OSTs", job("1,1,1,1", 16*MiB), plan.Settings{Layout: plan.Shared}, 4, 16, 4 * MiB},
		{"aggregated", job("2,2", 16*MiB), plan.Settings{Layout: plan.Aggregated, Buffer: 10 * MiB}, 8, 8, 10 * MiB},
		// 4 MiB of each of two members: side by side only where one is done
		{"static", job("2", 16*MiB), plan.Settings{Layout: plan.Aggregated, Strategy: plan.Static, Buffer: 8 * MiB}, 4, 8, 4 * MiB},
		{"per rank", job("2", 33*MiB), plan.Settings{}, 6, 18, 4 * MiB},
		{"individual", job("2", 33*MiB), plan.Settings{Layout: plan.Shared, Strategy: plan.Individual}, 6, 18, 4 * MiB},
	} {
		p := mustPlan(t, test.sources, test.settings)
		s := p.Summary()
		var largest int64
		for _, w := range p.Writers {
			for r := range p.WriterPlan(w.Rank) {
				for _, wr := range r.Writes {
					largest = max(largest, wr.Bytes)
				}
			}
		}
		if s.Rounds != test.rounds || s.Writes != test.writes || largest != test.largest {
			t.Errorf("%s: %d rounds, %d writes, the largest of %d; want %d, %d, %d", test.name, s.Rounds, s.Writes, largest, test.rounds, test.writes, test.largest)
		}
	}
}

// TestSettingErrors: every limit has an error that names the setting and a hint.
func TestSettingErrors(t *testing.T) {
	const KiB = 1 << 10
	for _, test := range []struct {
		settings plan.Settings
		want     string
	}{
		{plan.Settings{Layout: "flat"}, `layout of "flat": no such layout`},
		{plan.Settings{Strategy: "vulcan"}, `strategy of "vulcan": no such strategy`},
		{plan.Settings{Aggregators: -2}, "aggregators of -2: must not be negative"},
		{plan.Settings{Aggregators: 21}, "aggregators of 21: must be at most the number of ranks that write together, 20"},
		{plan.Settings{Layout: plan.Shared, Aggregators: 5, StripeCount: 4}, "aggregators of 5: must be at most the stripe count, 4"},
		{plan.Settings{Layout: plan.Shared, Aggregators: 6, StripeCount: 4, P4: true}, "aggregators of 6: must be a multiple of the stripe count, 4"},
		{plan.Settings{StripeCount: -1}, "stripe-count of -1: must be 1 to 2000"},
		{plan.Settings{StripeCount: 2001}, "stripe-count of 2001: must be 1 to 2000"},
		{plan.Settings{StripeSize: 100 * KiB}, "stripe-size of 102400: must be a multiple of 65536"},
		{plan.Settings{StripeSize: 4 * KiB}, "stripe-size of 4096: must be 65536 to"},
		{plan.Settings{StripeSize: 4 << 30}, "stripe-size of 4294967296: must be 65536 to 4294901760"},
		{plan.Settings{FirstOST: 16}, "first-ost of 16: must be 0 to 15"},
		{plan.Settings{FirstOST: -1}, "first-ost of -1: must be 0 to 15"},
		{plan.Settings{Buffer: 5000}, "buffer of 5000: must be a multiple of 4096"},
		{plan.Settings{Buffer: -4096}, "buffer of -4096: must be a multiple of 4096"},
		{plan.Settings{Buffer: 512 * KiB, Layout: plan.Shared}, "buffer of 524288: must be at least the stripe size, 1048576"},
		{plan.Settings{Buffer: 8 * KiB, Layout: plan.Aggregated, Strategy: plan.Static}, "buffer of 8192: must be at least 32768: with the static strategy rank 0 takes 4096 bytes from each of 8 ranks"},
		{plan.Settings{Header: 100}, "header of 100: must be a multiple of 4096"},
		{plan.Settings{Header: -4096}, "header of -4096: must be a multiple of 4096"},
	} {
		_, err := plan.New(job("8,8,4", 64*KiB), test.settings)
		var setting *plan.SettingError
		if !errors.As(err, &setting) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %s", test.settings, err, test.want)
			continue
		}
		if setting.Hint() == "" {
			t.Errorf("%v: no hint", err)
		}
	}
	// Smaller buffers than a stripe do where whole stripes are not asked for.
	for _, settings := range []plan.Settings{
		{Buffer: 4 * KiB},
		{Buffer: 4 * KiB, Layout: plan.Aggregated},
		{Buffer: 4 * KiB, Layout: plan.Shared, Strategy: plan.Dynamic},
	} {
		mustPlan(t, job("8,8,4", 64*KiB), settings)
	}
}

// TestSourceErrors: what the ranks contribute is checked.
func TestSourceErrors(t *testing.T) {
	piece := func(bytes int64) []plan.Piece { return []plan.Piece{{Bytes: bytes}} }
	for _, test := range []struct {
		sources []plan.Source
		want    string
	}{
		{nil, "plan: no ranks"},
		{[]plan.Source{{Rank: -1}}, "plan: rank -1: must not be negative"},
		{[]plan.Source{{Rank: 1}, {Rank: 1}}, "plan: rank 1 after rank 1: ranks must ascend"},
		{[]plan.Source{{}, {Rank: 3, Pieces: piece(100)}}, "plan: rank 3: piece 0: length of 100: must be a multiple of 4096, at most 2^60"},
		{[]plan.Source{{Pieces: piece(-4096)}}, "plan: rank 0: piece 0: length of -4096: must be a multiple of 4096, at most 2^60"},
		{[]plan.Source{{Pieces: piece(1 << 61)}}, "plan: rank 0: piece 0: length of 2305843009213693952: must be a multiple of 4096, at most 2^60"},
		{[]plan.Source{{Pieces: []plan.Piece{{Key: 0, Bytes: 1 << 60}, {Key: 1, Bytes: 4096}}}}, "plan: rank 0: piece 1: ends beyond 2^60 bytes"},
		{[]plan.Source{{Pieces: piece(1 << 60)}, {Rank: 1, Pieces: piece(1 << 60)}}, "plan: file 0: more than 2^60 bytes"},
		{[]plan.Source{{Pieces: []plan.Piece{{Key: 7}, {Key: 3}, {Key: 7}}}}, "plan: rank 0: pieces 0 and 2: both have the key 7"},
	} {
		_, err := plan.New(test.sources, plan.Settings{Layout: plan.Shared})
		if err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	settings := plan.Defaults()
	if _, err := settings.Bases(job("2"), []int64{0}); err == nil || err.Error() != "plan: 1 lengths for 2 ranks" {
		t.Error(err)
	}
	if _, err := settings.Bases(job("2"), []int64{0, 5}); err == nil || err.Error() != "plan: rank 1: length of 5: must be a multiple of 4096, at most 2^60" {
		t.Error(err)
	}
	if _, _, err := settings.Relative(piece(5)); err == nil {
		t.Error("Relative takes a piece of 5 bytes")
	}
}

// TestStranger: a rank that is not in the plan, or writes nothing, has no part.
func TestStranger(t *testing.T) {
	p := mustPlan(t, job("4", 64<<10), plan.Settings{Layout: plan.Shared})
	if file, offsets := p.Places(4); file != -1 || offsets != nil {
		t.Errorf("rank 4 of 4 is in file %d at %v", file, offsets)
	}
	for _, rank := range []int{-1, 1, 4} {
		for r := range p.WriterPlan(rank) {
			t.Errorf("rank %d: %+v", rank, r)
		}
		if s := p.WriterSummary(rank); s.Rounds != 0 || s.Bytes != 0 {
			t.Errorf("rank %d: %+v", rank, s)
		}
	}
}
