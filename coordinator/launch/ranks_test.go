package launch

import (
	"slices"
	"strings"
	"testing"
)

func TestWithRanks(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"mpiexec -n 4 ./heat 100", "mpiexec -n 9 ./heat 100"},
		{"mpirun --oversubscribe -np 4 ./heat 4", "mpirun --oversubscribe -np 9 ./heat 4"},
		{"srun --ntasks=4 ./heat", "srun --ntasks=9 ./heat"},
		{"mpiexec -n 4 ./heat -n 100", "mpiexec -n 9 ./heat -n 100"},
		{"mpiexec -n 4 ./heat -n 4", ""},
		{"mpiexec -n 2 ./heat : -n 2 ./other", ""},
		{"mpiexec ./heat", ""},
		{"./run.sh 4", ""},
	} {
		words := strings.Fields(c.command)
		before := slices.Clone(words)
		got, ok := WithRanks(words, 4, 9)
		if strings.Join(got, " ") != c.want || ok != (c.want != "") || !slices.Equal(words, before) {
			t.Errorf("%s: %q, %v, want %q", c.command, got, ok, c.want)
		}
	}
}
