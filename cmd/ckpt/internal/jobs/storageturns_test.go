package jobs

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"ckpt/coordinator/job"
)

// TestTurnsFlag reads the forms of --storage-turns, also that with its value apart.
func TestTurnsFlag(t *testing.T) {
	for _, c := range []struct {
		args    []string
		before  []string
		command []string
		want    job.StorageTurns
		given   bool
	}{
		{[]string{"bt.S.4"}, []string{"bt.S.4"}, nil, "", false},
		{[]string{"bt.S.4", "--storage-turns"}, []string{"bt.S.4"}, nil, "on", true},
		{[]string{"bt.S.4", "--storage-turns=auto"}, []string{"bt.S.4"}, nil, "auto", true},
		{[]string{"bt.S.4", "--storage-turns=off"}, []string{"bt.S.4"}, nil, "", true},
		{[]string{"bt.S.4", "--storage-turns", "auto"}, []string{"bt.S.4"}, nil, "auto", true},
		{[]string{"--storage-turns", "off", "bt.S.4"}, []string{"bt.S.4"}, nil, "", true},
		{[]string{"auto", "--storage-turns"}, []string{"auto"}, nil, "on", true},
		{[]string{"--storage-turns", "auto", "heat", "--", "srun", "on"}, []string{"heat"}, []string{"srun", "on"}, "auto", true},
	} {
		var o turnsOption
		var before, command []string
		cmd := &cobra.Command{Args: func(cmd *cobra.Command, args []string) error { o.arguments(cmd, args, 1); return nil }, Run: func(cmd *cobra.Command, args []string) { before, command, _ = o.arguments(cmd, args, 1) }}
		o.addFlags(cmd.Flags(), "off")
		cmd.SetArgs(c.args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		got, err := o.setting()
		if err != nil || !slices.Equal(before, c.before) || !slices.Equal(command, c.command) || (got != nil) != c.given || got != nil && *got != c.want {
			t.Errorf("%q: arguments %q, command %q, turns %v, error %v", c.args, before, command, got, err)
		}
	}
	o := turnsOption{text: "sometimes"}
	if _, err := o.setting(); err == nil {
		t.Error("--storage-turns=sometimes is no error")
	}
}
