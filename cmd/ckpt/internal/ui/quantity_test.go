package ui

import (
	"strings"
	"testing"
)

// TestQuantityErrors checks that errors and hints name the flag, and that what a hint
// says to write is right.
func TestQuantityErrors(t *testing.T) {
	duration := func(flag, s string) error { _, err := ParseDuration(flag, s); return err }
	size := func(flag, s string) error { _, err := ParseSize(flag, s); return err }
	share := func(flag, s string) error { _, err := ParseShare(flag, s); return err }
	for _, c := range []struct {
		parse    func(flag, s string) error
		flag     string
		rejected []string
	}{
		{duration, "--cost", []string{"", "x", "5mo", "1h30", "NaN"}},
		{size, "--size", []string{"", "x", "0", "16Mb"}},
		{share, "--overhead", []string{"", "x", "10", "1.5", "1", "2,5%"}},
	} {
		for _, s := range c.rejected {
			err := c.parse(c.flag, s)
			if err == nil || !strings.Contains(err.Error(), c.flag+" ") || !strings.Contains(HintOf(err), c.flag+" ") || ExitCode(err) != ExitUsage {
				t.Errorf("%s %q: %v; hint: %s", c.flag, s, err, HintOf(err))
				continue
			}
			for _, after := range strings.Split(HintOf(err), c.flag+" ")[1:] {
				value := strings.TrimRight(strings.Fields(after)[0], ",;")
				if err := c.parse(c.flag, value); err != nil {
					t.Errorf("the hint for %s %q says %s: %v", c.flag, s, value, err)
				}
			}
		}
	}
}
