package predict

import (
	"fmt"
	"strings"
)

// An InputError says why a prediction cannot be made from what was given, in
// one line, and what to do about it.
type InputError struct {
	Text string
	fix  string
}

func (e *InputError) Error() string { return strings.Join(strings.Fields(e.Text), " ") }

// Hint returns the remedy in one line.
func (e *InputError) Hint() string { return strings.Join(strings.Fields(e.fix), " ") }

func refuse(fix, format string, args ...any) error {
	return &InputError{fmt.Sprintf(format, args...), fix}
}
