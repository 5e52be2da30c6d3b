package job

import (
	"fmt"
	"math"
	"strings"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/internal/wording"
)

// resolveMode reads how groups work, and refuses settings that contradict each other.
func (s *Resolved) resolveMode() (err error) {
	switch s.Mode {
	case Coordinated:
		if given := s.ofGroups(); len(given) > 0 {
			return &UsageError{given[0] + " is for groups of ranks that do not take checkpoints together", wording.Sprintf("add {mode} uncoordinated or {mode} semi")}
		}
	case Uncoordinated, Semi:
	default:
		return &UsageError{fmt.Sprintf("mode %q is unknown", s.Mode), wording.Sprintf("{mode} takes coordinated, uncoordinated or semi")}
	}
	if s.GroupSize != 0 && s.Mode != Semi {
		return &UsageError{wording.Sprintf("{group-size} %d: groups are for semi-coordinated checkpoints", s.GroupSize), wording.Sprintf("add {mode} semi")}
	}
	if s.GroupSize < 0 || s.GroupSize > s.NP {
		return &UsageError{wording.Sprintf("{group-size} %d: the job has %d ranks", s.GroupSize, s.NP), fmt.Sprintf("give 1 to %d", s.NP)}
	}
	if s.Log, err = parseOr(s.Spec.Log, channel.Receiver, channel.ParseKind); err != nil {
		return &UsageError{err.Error(), wording.Sprintf("{log} takes pessimistic-receiver, pessimistic-sender, optimistic or none")}
	}
	if s.Mode == Semi && (s.Log == channel.Optimistic || s.Log == channel.None) {
		return &UsageError{wording.Sprintf("{log} %s: messages between groups of several ranks are logged pessimistically", s.Log),
			wording.Sprintf("leave {log} out, or use {mode} uncoordinated")}
	}
	if s.Stagger, err = parseOr(s.Spec.Stagger, supervisor.Spread, supervisor.ParseStagger); err != nil {
		return &UsageError{err.Error(), wording.Sprintf("{stagger} takes none, spread or random")}
	}
	if !(s.Jitter >= 0 && s.Jitter < 1) {
		percent := math.Round(s.Jitter*1e4) / 1e2 // as the user wrote it
		return &UsageError{wording.Sprintf("{jitter} %g%%: not a part of the interval", percent), "give 0% to 99%"}
	}
	if s.Mode != Coordinated && s.Launcher != "" && s.Launcher != LocalLauncher {
		return &UsageError{wording.Sprintf("{mode} %s: %s ends all ranks when one dies", s.Mode, s.Launcher), wording.Sprintf("use {launcher} local")}
	}
	return nil
}

// ofGroups lists the flags that were given and need several groups.
func (s *Spec) ofGroups() []string {
	var given []string
	for _, f := range []struct {
		name  string
		given bool
	}{{wording.Sprintf("{log}"), s.Log != ""}, {wording.Sprintf("{stagger}"), s.Stagger != ""}, {wording.Sprintf("{jitter}"), s.Jitter != 0}} {
		if f.given {
			given = append(given, f.name)
		}
	}
	return given
}

// OneGroup says so, if groups were asked for and all ranks are in one; else it is
// empty.
func (s *Resolved) OneGroup() string {
	if s.Mode != Semi || s.NP == 1 || s.Several() {
		return ""
	}
	text := wording.Sprintf("{mode} semi: all %d ranks are one group, as with {mode} coordinated", s.NP)
	switch given := s.ofGroups(); len(given) {
	case 0:
	case 1:
		text += ", and " + given[0] + " has no effect"
	default:
		text += ", and " + strings.Join(given, " and ") + " have no effect"
	}
	return text + wording.Sprintf("; {nodes}, {map} or {group-size} makes several")
}

// CheckRestart refuses to restart a job in a way that its groups make no sense of:
// under its mapping it was was.
func (s *Resolved) CheckRestart(was Mapping, checkpoint int) error {
	if s.Mode == Semi && s.GroupSize == 0 && was.String() != s.Mapping.String() {
		return &UsageError{fmt.Sprintf("mapping %s: the groups are the nodes %s", s.Mapping, was), wording.Sprintf("keep the mapping, or launch with {group-size}")}
	}
	if checkpoint != 0 && s.Several() {
		return &UsageError{fmt.Sprintf("checkpoint %d is of some ranks only: the job takes %s checkpoints, and resumes from its recovery line", checkpoint, s.Mode),
			wording.Sprintf("leave {checkpoint} out; {show JOB} {recovery-line} shows where it resumes")}
	}
	return nil
}

// divide divides the ranks into groups.
func (s *Resolved) divide() {
	for rank := range s.NP {
		var first bool // of its group
		switch {
		case s.Mode == Uncoordinated:
			first = true
		case s.Mode == Semi && s.GroupSize > 0:
			first = rank%s.GroupSize == 0
		case s.Mode == Semi:
			first = rank == 0 || s.Nodes[rank] != s.Nodes[rank-1]
		default:
			first = rank == 0
		}
		if first {
			s.Groups = append(s.Groups, nil)
		}
		last := len(s.Groups) - 1
		s.Groups[last], s.GroupOf = append(s.Groups[last], rank), append(s.GroupOf, last)
	}
}

// NameRanks names ranks that follow each other, as those of a group do.
func NameRanks(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return fmt.Sprintf("ranks %d-%d", ranks[0], ranks[len(ranks)-1])
}
