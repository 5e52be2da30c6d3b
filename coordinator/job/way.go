package job

import (
	"fmt"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
)

// A Way is how the ranks of a job write a checkpoint. It may change from one checkpoint to
// the next: each order to write says it, so that every incarnation of a rank knows. The
// files and their manifest say by themselves how they were written.
type Way struct {
	WritePath plan.Settings `json:"write_path"`
	Codec     string        `json:"codec"`
}

// Way is the one that the description of the job asks for.
func (s *Spec) Way() Way { return Way{s.WritePath, s.Codec} }

// CodecOf reads the codec of a way.
func (w *Way) CodecOf() (codec.Setting, error) {
	return parseOr(w.Codec, codec.UseNone, codec.ParseSetting)
}

// Joint returns how the ranks of a group write files together in a way; nil if each writes
// a file of its own. The way may be impossible for the group.
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

// fitted returns settings for some of np ranks. A group that is smaller than the number of
// aggregators has as many of them as it can.
func fitted(s plan.Settings, np, ranks int) plan.Settings {
	if s.Aggregators > np {
		return s // a mistake, whatever the groups
	}
	return s.Fit(ranks)
}
