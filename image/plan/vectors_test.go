package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ckpt/image/plan"
)

// element is what stands for one array element of the thesis's figures: the
// smallest stripe is 64 KiB.
const element = 64 << 10

func mustPlan(t testing.TB, sources []plan.Source, settings plan.Settings) *plan.Plan {
	t.Helper()
	p, err := plan.New(sources, settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// nodes is a mapping of n nodes with one rank each: Larrosa's locales.
func nodes(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }

// checkOSTWriters checks the number of writers on each OST, and the largest number
// that write into one file there.
func checkOSTWriters(t *testing.T, p *plan.Plan, inFile int64, each ...int64) {
	t.Helper()
	got := p.Summary()
	if !slices.Equal(got.WritersPerOST, each) || got.MaxWriters != slices.Max(each) || got.MaxFileWriters != inFile {
		t.Errorf("%+v: writers per OST %v, at most %d and %d into one file, want %v, and %d", p.Settings, got.WritersPerOST, got.MaxWriters, got.MaxFileWriters, each, inFile)
	}
}

// stripeOwners are the stripes that each writer writes into, by carrying out its
// rounds.
func stripeOwners(p *plan.Plan) map[int][]int64 {
	stripes := make(map[int][]int64)
	for _, w := range p.Writers {
		for r := range p.WriterPlan(w.Rank) {
			for _, wr := range r.Writes {
				for s := wr.Offset / p.Settings.StripeSize; s*p.Settings.StripeSize < wr.Offset+wr.Bytes; s++ {
					stripes[w.Rank] = append(stripes[w.Rank], s)
				}
			}
		}
	}
	return stripes
}

// Larrosa, Figure 1.4: 12 elements on 2 nodes, stripes of 4 on 2 OSTs. Stripes 0
// and 2 are on OST 0, stripe 1 is on OST 1 and shared.
func TestFigure1_4(t *testing.T) {
	settings := plan.Settings{
		Layout: plan.Shared, Unaligned: true, StripeSize: 4 * element, StripeCount: 2,
	}
	p := mustPlan(t, job("1,1", 6*element), settings)
	s := p.Summary()
	if s.Stripes != 3 || s.SharedStripes != 1 || !slices.Equal(s.StripesPerOST, []int64{2, 1}) {
		t.Errorf("%d stripes, %d shared, %v per OST; want 3, 1, [2 1]", s.Stripes, s.SharedStripes, s.StripesPerOST)
	}
	if owners := stripeOwners(p); !slices.Equal(owners[0], []int64{0, 2}) || !slices.Equal(owners[1], []int64{1}) {
		t.Errorf("owners of stripes: %v", owners)
	}
	if s.ContendedStripes != 0 {
		t.Errorf("%d stripes with two writers", s.ContendedStripes)
	}
	checkOSTWriters(t, p, 1, 1, 1)
	settings.Strategy = plan.Individual
	p = mustPlan(t, job("1,1", 6*element), settings)
	if s := p.Summary(); s.ContendedStripes != 1 {
		t.Errorf("individual: %d stripes with two writers, want the shared one", s.ContendedStripes)
	}
	checkOSTWriters(t, p, 2, 2, 2) // each node has data in one stripe of its own and in the shared one
	settings.Unaligned = false
	if s := mustPlan(t, job("1,1", 6*element), settings).Summary(); s.SharedStripes != 0 || s.HoleBytes != 2*element {
		t.Errorf("aligned: %d shared stripes, %d bytes of holes", s.SharedStripes, s.HoleBytes)
	}
}

// Larrosa, Figure 2.17: a 6×6 array on 3 locales, stripes of 8 elements. Elements
// 8 to 15 are the only stripe with data of two locales.
func TestFigure2_17(t *testing.T) {
	settings := plan.Settings{Layout: plan.Shared, Unaligned: true, StripeSize: 8 * element, StripeCount: 3}
	p := mustPlan(t, job("1,1,1", 6*element, 6*element), settings)
	if s := p.Summary(); s.Stripes != 5 || s.SharedStripes != 1 {
		t.Errorf("%d stripes, %d shared; want 5, 1", s.Stripes, s.SharedStripes)
	}
	ranks := ranksOfStripes(p, job("1,1,1", 6*element, 6*element))[0]
	if len(ranks[1]) != 2 || !ranks[1][0] || !ranks[1][1] {
		t.Errorf("stripe 1 has data of %v, want 0 and 1", ranks[1])
	}
	checkOSTWriters(t, p, 1, 1, 1, 1)
	// Stripes 0 and 3 lie on OST 0, 1 and 4 on OST 1; locale 0 has data in stripes
	// 0 and 1, locale 1 in 1 and 2, locale 2 in 3 and 4.
	settings.Strategy = plan.Individual
	checkOSTWriters(t, mustPlan(t, job("1,1,1", 6*element, 6*element), settings), 3, 2, 3, 1)
}

// Larrosa, section 2.3: aggregators, their OSTs and the locales they gather
// from. Aggregator a is locale a.
func TestAggregatorTables(t *testing.T) {
	for _, test := range []struct {
		locales, osts int
		p4            bool
		want          string
	}{
		{8, 3, false, "0:[0]<0-7 1:[1]<0-7 2:[2]<0-7"},
		{8, 3, true, "0:[0]<0-2 1:[1]<0-2 2:[2]<0-2 3:[0]<3-7 4:[1]<3-7 5:[2]<3-7"},
		{2, 4, false, "0:[0 1]<0-1 1:[2 3]<0-1"},
		{2, 4, true, "0:[0 1]<0-1 1:[2 3]<0-1"},
		{3, 8, false, "0:[0 1]<0-2 1:[2 3 4]<0-2 2:[5 6 7]<0-2"},
		{4, 4, true, "0:[0]<0-3 1:[1]<0-3 2:[2]<0-3 3:[3]<0-3"},
	} {
		p := mustPlan(t, job(nodes(test.locales), 64<<10), plan.Settings{
			Layout: plan.Shared, StripeSize: 64 << 10, StripeCount: test.osts, P4: test.p4,
		})
		var table []string
		for _, w := range p.Writers {
			table = append(table, fmt.Sprintf("%d:%v<%d-%d", w.Rank, w.OSTs, w.Ranks[0], w.Ranks[len(w.Ranks)-1]))
		}
		if got := strings.Join(table, " "); got != test.want {
			t.Errorf("%d locales, %d OSTs, P4 %v:\n got %s\nwant %s", test.locales, test.osts, test.p4, got, test.want)
		}
	}
}

// Larrosa, section 2.4: 512 locales on 16 OSTs are 16 aggregators that pull from
// 512 or, with P4, 512 that pull from 16, 32 on each OST. With 32 to 63 locales
// there are 2 or 3 per OST; on 8 OSTs, 2 for 16 to 23 locales.
func TestFanIn(t *testing.T) {
	for _, test := range []struct {
		locales, osts        int
		p4                   bool
		aggregators, sources int
		perOST               int
	}{
		{512, 16, false, 16, 512, 1},
		{512, 16, true, 512, 16, 32},
		{32, 16, true, 32, 16, 2},
		{47, 16, true, 32, 16, 2},
		{48, 16, true, 48, 16, 3},
		{63, 16, true, 48, 16, 3},
		{16, 8, true, 16, 8, 2},
		{23, 8, true, 16, 8, 2},
		{24, 8, true, 24, 8, 3},
	} {
		p := mustPlan(t, job(nodes(test.locales), 16*element), plan.Settings{
			Layout: plan.Shared, StripeSize: element, StripeCount: test.osts, P4: test.p4, Buffer: 4 * element,
		})
		s := p.Summary()
		perOST := make([]int, test.osts)
		for _, w := range s.Writers {
			perOST[w.OSTs[0]]++
		}
		if len(s.Writers) != test.aggregators || s.Writers[0].Sources != test.sources || perOST[0] != test.perOST || slices.Min(perOST) != slices.Max(perOST) {
			t.Errorf("%d locales, %d OSTs, P4 %v: %d aggregators, the first pulls from %d, per OST %v; want %d, %d, %d",
				test.locales, test.osts, test.p4, len(s.Writers), s.Writers[0].Sources, perOST, test.aggregators, test.sources, test.perOST)
		}
		checkOSTWriters(t, p, int64(test.perOST), slices.Repeat([]int64{int64(test.perOST)}, test.osts)...)
	}
}

// Larrosa, section 1.2.4: ranks that all write for themselves meet on every OST,
// in one file, where they wait for each other's locks, or each in a file of its own.
func TestOSTWritersWithoutAggregators(t *testing.T) {
	const locales, osts = 48, 16
	sources := job(nodes(locales), osts*element)
	all := slices.Repeat([]int64{locales}, osts)
	settings := plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, StripeSize: element, StripeCount: osts}
	checkOSTWriters(t, mustPlan(t, sources, settings), locales, all...)
	settings.Layout = plan.PerRank
	checkOSTWriters(t, mustPlan(t, sources, settings), 1, all...)
	// Three files of 16 ranks.
	settings.Layout, settings.Aggregators = plan.Aggregated, 3
	checkOSTWriters(t, mustPlan(t, sources, settings), 16, all...)
	settings.Strategy = plan.TwoPhase
	checkOSTWriters(t, mustPlan(t, sources, settings), 1, slices.Repeat([]int64{3}, osts)...)
	// Files of one stripe, each on the next OST.
	checkOSTWriters(t, mustPlan(t, job(nodes(5), element), plan.Settings{StripeSize: element, StripeCount: 4, FirstOST: 3}), 1, 1, 1, 1, 2)
}

// A stripe across two groups goes to the group of its first byte, whole. Of 4
// locales on 2 OSTs, the first two have 5 elements, stripes are of 2: stripe 2,
// elements 4 and 5, begins in group 0 and ends in group 1.
func TestStripeAcrossGroups(t *testing.T) {
	sources := job("1,1,1,1", 3*element)
	sources[1].Pieces[0].Bytes = 2 * element
	p := mustPlan(t, sources, plan.Settings{
		Layout: plan.Shared, Unaligned: true, StripeSize: 2 * element, StripeCount: 2, P4: true,
	})
	got := stripeOwners(p)
	want := map[int][]int64{0: {0, 2}, 1: {1}, 2: {4}, 3: {3, 5}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("stripes %v, want %v", got, want)
	}
	if s := p.WriterSummary(0); s.Sources != 3 || s.OtherNodeBytes != 2*element {
		t.Errorf("rank 0: %+v; want bytes of ranks 0, 1 and, from the other group, 2", s)
	}
}

// León, Table 4.8: MiniGhost on 16 processes, five variables of 200³ doubles
// each, one shared file. The number of writes falls with the buffer and hardly
// depends on the aggregators. The table counts the metadata, too, which all ranks
// write: 9 to 107 writes more than the data needs.
func TestTable4_8(t *testing.T) {
	const variable = 200 * 200 * 200 * 8
	printed := map[int64][3]int64{ // writes with 1, 2, 4 aggregators, one per node
		4:  {1289, 1294, 1304},
		16: {394, 394, 404},
		32: {164, 174, 184},
		64: {89, 94, 104},
	}
	before := [3]int64{}
	for _, buffer := range []int64{64, 32, 16, 4} {
		for i, mapping := range []string{"16", "8,8", "4,4,4,4"} {
			sources := job(mapping, variable, variable, variable, variable, variable)
			for _, settings := range []plan.Settings{
				// As ROMIO on a file system without stripes: each aggregator has a
				// contiguous part of the file.
				{Layout: plan.Shared, StripeCount: 1, P4: true, Aggregators: 1 << i},
				{Layout: plan.Shared, Strategy: plan.Dynamic},
				{Layout: plan.Aggregated},
			} {
				settings.Buffer = buffer << 20
				settings.Unaligned = true
				settings.Header = plan.PageSize
				s := mustPlan(t, sources, settings).Summary()
				if s.Bytes != 16*5*variable {
					t.Fatalf("%d bytes", s.Bytes)
				}
				if len(s.Writers) != 1<<i {
					t.Fatalf("%d writers, want %d", len(s.Writers), 1<<i)
				}
				least := (s.Bytes + buffer<<20 - 1) / (buffer << 20)
				if s.Writes < least || s.Writes > least+int64(len(s.Writers)) {
					t.Errorf("%d MiB, %s, %s: %d writes, want %d and at most one more per aggregator", buffer, mapping, settings.Layout, s.Writes, least)
				}
				if p := printed[buffer][i]; s.Writes > p || p-s.Writes > 107 {
					t.Errorf("%d MiB, %s, %s: %d writes, printed are %d", buffer, mapping, settings.Layout, s.Writes, p)
				}
				if s.Writes <= before[i] {
					t.Errorf("%d MiB, %s: %d writes, no more than with a larger buffer", buffer, mapping, s.Writes)
				}
				if settings.Layout == plan.Aggregated {
					before[i] = s.Writes
				}
			}
		}
	}
}

// TestFiles64 counts files for 64 ranks on 8 nodes. The manifest comes on top.
func TestFiles64(t *testing.T) {
	sources := job("8,8,8,8,8,8,8,8", 1<<20, 3<<20)
	for _, test := range []struct {
		settings plan.Settings
		want     int
	}{
		{plan.Settings{Layout: plan.PerRank}, 64},
		{plan.Settings{Layout: plan.Aggregated}, 8},
		{plan.Settings{Layout: plan.Aggregated, Aggregators: 3}, 3},
		{plan.Settings{Layout: plan.Aggregated, Aggregators: 20, Strategy: plan.Individual}, 20},
		{plan.Settings{Layout: plan.Shared}, 1},
		{plan.Settings{Layout: plan.Shared, P4: true}, 1},
		{plan.Settings{Layout: plan.Shared, Strategy: plan.Individual}, 1},
	} {
		p := mustPlan(t, sources, test.settings)
		if s := p.Summary(); len(p.Files) != test.want || s.Files != test.want {
			t.Errorf("%+v: %d files, %d in the summary, want %d", test.settings, len(p.Files), s.Files, test.want)
		}
	}
}
