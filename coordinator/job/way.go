package job

import (
	"fmt"
	"slices"

	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/wording"
)

// A Way is how the ranks of a job write a checkpoint. It may change from one to the next: each
// order to write names it, so that every incarnation of a rank knows. The files and their
// manifest tell how they were written.
type Way struct {
	WritePath plan.Settings `json:"write_path"`
	Codec     string        `json:"codec"`
}

// Way is the description's.
func (s *Spec) Way() Way { return Way{s.WritePath, s.Codec} }

func (w *Way) CodecOf() (codec.Setting, error) {
	return parseOr(w.Codec, codec.UseNone, codec.ParseSetting)
}

// Joint returns how the ranks of a group write files together, nil if each writes its own. The
// way may be impossible for the group.
func (s *Resolved) Joint(group int, w Way) (*JointLayout, error) {
	if w.WritePath.Layout == "" || w.WritePath.Layout == plan.PerRank {
		return nil, nil
	}
	ranks := s.Groups[group]
	l := &JointLayout{Settings: fitted(w.WritePath, s.NP, len(ranks)), Ranks: s.places(ranks)}
	var err error
	l.Files, err = container.JointFiles(l.Settings, l.Ranks)
	if err != nil && s.Several() {
		err = fmt.Errorf("%s take checkpoints apart from the others: %w", NameRanks(ranks), err)
	}
	return l, err
}

// JointAs is Joint, in the description's way if w is nil.
func (s *Resolved) JointAs(group int, w *Way) (*JointLayout, error) {
	if w == nil {
		return s.Layouts[group], nil
	}
	return s.Joint(group, *w)
}

// fitted returns settings for some of np ranks. A small group has as many aggregators as it can.
func fitted(s plan.Settings, np, ranks int) plan.Settings {
	if s.Aggregators > np {
		return s // a mistake, whatever the groups
	}
	return s.Fit(ranks)
}

type JointLayout struct {
	Settings plan.Settings
	Ranks    []plan.Source
	Files    int
}

// Of reports whether the ranks of a version are those that the layout is for.
func (g *JointLayout) Of(m *image.Manifest) bool {
	return g != nil && slices.EqualFunc(g.Ranks, m.Ranks, func(s plan.Source, r image.Rank) bool { return s.Rank == r.Rank })
}

// resolveLayouts finds out how the ranks of each group write.
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

// FewerAggregators says that some group has fewer aggregators than were asked for, or returns "".
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

// Layout returns the settings of the write path as they take effect; an error may be a
// *plan.SettingError.
func (s Spec) Layout() (plan.Settings, error) {
	r := &Resolved{Spec: s, Nodes: s.Mapping.Nodes()}
	r.divide()
	p, err := plan.New(r.places(r.Groups[0]), fitted(s.WritePath, s.NP, len(r.Groups[0])))
	if err != nil {
		return plan.Settings{}, err
	}
	return p.Settings, nil
}

func (s *Resolved) places(ranks []int) []plan.Source {
	var places []plan.Source
	for _, rank := range ranks {
		places = append(places, plan.Source{Rank: rank, Node: s.Nodes[rank]})
	}
	return places
}

func (g *JointLayout) Kind() string {
	if g.Settings.Layout == plan.Shared {
		return container.KindJob
	}
	return container.KindAggregated
}

type Tuning struct {
	Storage   string `json:"storage"`   // the description, as YAML
	Objective string `json:"objective"` // as tune.ParseObjective takes it
	// Before is the way that the user asked for, Why what the one found is better at.
	Before      Way    `json:"before"`
	BeforeAsync bool   `json:"before_async,omitempty"`
	Why         string `json:"why"`
}

func (s *Resolved) Possible(w Way) error {
	if _, err := w.CodecOf(); err != nil {
		return err
	}
	for g := range s.Groups {
		if _, err := s.Joint(g, w); err != nil {
			return fmt.Errorf("%s: %w", NameRanks(s.Groups[g]), err)
		}
	}
	return nil
}
