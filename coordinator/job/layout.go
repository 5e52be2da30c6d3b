package job

import (
	"fmt"

	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/wording"
)

// JointLayout is how ranks write the files of a shared or aggregated layout.
type JointLayout struct {
	Settings plan.Settings
	Ranks    []plan.Source
	Files    int
}

// resolveLayouts finds out how the ranks of each group write. A layout may be impossible
// for a group.
func (s *Resolved) resolveLayouts() error {
	s.Layouts = make([]*JointLayout, len(s.Groups))
	for g := range s.Groups {
		l, err := s.Joint(g, s.Way())
		if err != nil {
			return err
		}
		s.Layouts[g] = l
	}
	return nil
}

// FewerAggregators says so, if some group has fewer aggregators than were asked for;
// else it is empty.
func (s *Resolved) FewerAggregators() string {
	smallest := 0
	for g, ranks := range s.Groups {
		if len(ranks) < len(s.Groups[smallest]) {
			smallest = g
		}
	}
	layout := s.Layouts[smallest]
	if layout == nil || layout.Settings.Aggregators >= s.WritePath.Aggregators ||
		s.WritePath.Layout == plan.Shared && s.WritePath.Strategy == plan.Individual {
		return "" // no number of aggregators has an effect
	}
	return wording.Sprintf("{aggregators} %d: a group of %s has %s", s.WritePath.Aggregators,
		plural(len(layout.Ranks), "rank"), plural(layout.Settings.Aggregators, "aggregator"))
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Layout returns the settings of the write path as they take effect; an error may
// be a *plan.SettingError.
func (s Spec) Layout() (plan.Settings, error) {
	r := &Resolved{Spec: s, Nodes: s.Mapping.Nodes()}
	r.divide()
	p, err := plan.New(r.places(r.Groups[0]), fitted(s.WritePath, s.NP, len(r.Groups[0])))
	if err != nil {
		return plan.Settings{}, err
	}
	return p.Settings, nil
}

// places returns ranks and their nodes.
func (s *Resolved) places(ranks []int) []plan.Source {
	var places []plan.Source
	for _, rank := range ranks {
		places = append(places, plan.Source{Rank: rank, Node: s.Nodes[rank]})
	}
	return places
}

// Kind returns that of the files.
func (g *JointLayout) Kind() string {
	if g.Settings.Layout == plan.Shared {
		return container.KindJob
	}
	return container.KindAggregated
}
