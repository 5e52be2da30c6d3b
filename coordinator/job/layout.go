package job

import (
	"fmt"

	"ckpt/image/container"
	"ckpt/image/plan"
)

// JointLayout is how the ranks of a job write common files.
type JointLayout struct {
	Settings plan.Settings
	Ranks    []plan.Source
	Files    int
}

// JointLayout returns nil if every rank writes a file of its own.
func (s *Spec) JointLayout(mapping Mapping, ranks []int) (*JointLayout, error) {
	if s.WritePath.Layout == "" || s.WritePath.Layout == plan.PerRank {
		return nil, nil
	}
	g := &JointLayout{Settings: s.writePath(ranks), Ranks: placesOf(mapping, ranks)}
	var err error
	g.Files, err = container.GroupFiles(g.Settings, g.Ranks)
	return g, err
}

// writePath returns the settings for a group of ranks. A group that is smaller than the
// number of aggregators has as many of them as it can.
func (s *Spec) writePath(ranks []int) plan.Settings {
	if s.WritePath.Aggregators > s.NP {
		return s.WritePath // a mistake, whatever the groups
	}
	return s.WritePath.Fit(len(ranks))
}

// FewerAggregators says so, if some group has fewer aggregators than were asked for;
// else it is empty.
func (s *Spec) FewerAggregators() string {
	groups := s.Groups(s.Mapping)
	smallest := groups[0]
	for _, ranks := range groups {
		if len(ranks) < len(smallest) {
			smallest = ranks
		}
	}
	joint, err := s.JointLayout(s.Mapping, smallest)
	if err != nil || joint == nil || joint.Settings.Aggregators >= s.WritePath.Aggregators ||
		s.WritePath.Layout == plan.Shared && s.WritePath.Strategy == plan.Individual {
		return "" // it is an error, or no number of aggregators has an effect
	}
	return fmt.Sprintf("--aggregators %d: a group of %s has %s", s.WritePath.Aggregators,
		plural(len(smallest), "rank"), plural(joint.Settings.Aggregators, "aggregator"))
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Layout returns the settings of the write path as they take effect; an error may
// be a *plan.SettingError.
func (s *Spec) Layout() (plan.Settings, error) {
	first := s.Groups(s.Mapping)[0]
	p, err := plan.New(placesOf(s.Mapping, first), s.writePath(first))
	if err != nil {
		return plan.Settings{}, err
	}
	return p.Settings, nil
}

// placesOf returns ranks and their nodes.
func placesOf(mapping Mapping, ranks []int) []plan.Source {
	nodes := mapping.Nodes()
	var places []plan.Source
	for _, rank := range ranks {
		places = append(places, plan.Source{Rank: rank, Node: nodes[rank]})
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
