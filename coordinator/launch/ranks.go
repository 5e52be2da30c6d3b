package launch

import (
	"slices"
	"strconv"
	"strings"
)

// counts reports whether a word is an option of a launcher that says how many ranks
// there are, after one dash or two.
func counts(word string) bool {
	option, dashed := strings.CutPrefix(word, "-")
	return dashed && slices.Contains([]string{"n", "np", "c", "ntasks"}, strings.TrimPrefix(option, "-"))
}

// WithRanks returns the command of a program with another number of ranks. It reports
// false where the command does not tell, in exactly one place, that there were so many.
func WithRanks(command []string, were, np int) ([]string, bool) {
	place, changed := -1, ""
	for i, word := range command {
		option, value, joined := strings.Cut(word, "=")
		switch {
		case joined && counts(option) && value == strconv.Itoa(were):
			word = option + "=" + strconv.Itoa(np)
		case i > 0 && counts(command[i-1]) && word == strconv.Itoa(were):
			word = strconv.Itoa(np)
		default:
			continue
		}
		if place >= 0 {
			return nil, false
		}
		place, changed = i, word
	}
	if place < 0 {
		return nil, false
	}
	command = slices.Clone(command)
	command[place] = changed
	return command, true
}
