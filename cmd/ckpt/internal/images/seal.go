package images

import (
	"errors"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/internal/vfs"
)

func newSealCommand(g *ui.Globals) *cobra.Command {
	var add, remove []string
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Make a store that only some can read, or change who can",
		Long: `Make a sealed store: what jobs keep there is encrypted, for the recipients of age
(age1…) that --recipient names. In a store that is sealed already, add recipients and
remove others; without flags, show them. A store with jobs that are not sealed stays as it
is: ckpt copy copies them into a sealed one.

$CKPT_IDENTITY names the file of the identity with which ckpt opens a sealed store; it has
to be an absolute path. age-keygen -o FILE makes such a file, and prints its recipient.

A recipient that was removed may have kept the key of the store. Make another store for data
that it must not read.`,
		Example: "  ckpt seal --store /backup/store --recipient age1…\n  ckpt seal --store /backup/store --recipient age1… --remove age1…",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runSeal(g, add, remove) },
	}
	cmd.Flags().StringSliceVar(&add, "recipient", nil, "let this recipient open the store, as age1…; may be repeated")
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "take a recipient away; may be repeated")
	g.AddStoreFlag(cmd)
	return cmd
}

func runSeal(g *ui.Globals, add, remove []string) error {
	if err := g.CheckStore(); err != nil {
		return err
	}
	for _, r := range add {
		if err := image.CheckRecipient(r); err != nil {
			return ui.BadUsage(err.Error(), "age-keygen -o FILE makes an identity and prints its recipient")
		}
	}
	if is, err := image.IsSealed(vfs.OS{}, g.Store); err != nil || !is && len(add) == 0 {
		if err == nil {
			err = ui.BadUsage("--recipient is missing: "+g.Store+" is no sealed store", "name who is to read it, like --recipient age1…; age-keygen -o FILE makes an identity and prints its recipient")
		}
		return err
	}
	s, err := image.Seal(vfs.OS{}, g.Store, add, remove)
	switch {
	case errors.Is(err, image.ErrJobExists):
		return ui.WithHint(err, "seal another store, and copy the jobs there with ckpt copy")
	case err != nil:
		return err
	}
	return g.Show(s, func() error {
		is := "is sealed"
		if s.Made {
			is = "is a sealed store now"
		}
		if err := g.Printf("%s %s; fingerprint %s\n", g.Store, is, s.Fingerprint); err != nil {
			return err
		}
		for _, r := range s.Recipients {
			if err := g.Printf("recipient %s\n", r); err != nil {
				return err
			}
		}
		return nil
	})
}

// outside returns what can be seen of a store that cannot be opened; nil if err is another one.
func outside(g *ui.Globals, err error) (*image.Outside, error) {
	if !errors.Is(err, image.ErrNoIdentity) {
		return nil, err
	}
	return image.OpenOutside(vfs.OS{}, g.Store)
}
