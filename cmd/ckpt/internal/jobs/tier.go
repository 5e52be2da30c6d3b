package jobs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image/nodes"
)

// tierOptions are the flags for directories of the nodes, which take checkpoints first.
type tierOptions struct {
	local, protect, domains string
	drain, drainRate        string
}

// addFlags adds the flags of every command that starts a job.
func (o *tierOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.local, "local", "", "directory of each node that takes checkpoints first, like '/nvme/{node}'; they go to the store behind the job")
	f.StringVar(&o.protect, "protect", "none", "with --local: what survives a lost node: none, partner[:K] (copies on K other nodes), xor:N (a parity in groups of N nodes) or rs:K+M (M parities in groups of K+M)")
	f.StringVar(&o.domains, "domains", "", "with --local: the failure domain of each node, like 0,0,1,1 (default: each node its own)")
	f.StringVar(&o.drain, "drain", nodes.DrainBehind, "with --local: which checkpoints go to the store: behind (the newest, one after the other), every=N or none")
	f.StringVar(&o.drainRate, "drain-rate", "", "with --local: bytes per second that all ranks together copy into the store, like 200MiB (default: no limit)")
}

// setting reads the flags; nil: the job has no such directories.
func (o *tierOptions) setting(f *pflag.FlagSet) (*nodes.Setting, error) {
	if o.local == "" {
		return nil, refuse(f, []string{"protect", "domains", "drain", "drain-rate"}, "only --local keeps checkpoints on the nodes", "add --local "+job.TierExample)
	}
	dir, err := filepath.Abs(o.local) // ranks run in directories of their own
	if err != nil {
		return nil, err
	}
	s := &nodes.Setting{Dir: dir}
	if s.Protect, err = nodes.Parse(o.protect); err != nil {
		return nil, ui.BadUsage("--protect "+o.protect+": want none, partner, partner:K, xor:N or rs:K+M", "--protect partner keeps a copy on another node")
	}
	if s.Drain, err = nodes.ParseDrain(o.drain); err != nil {
		return nil, ui.BadUsage("--drain "+o.drain+": want behind, every=N or none", "--drain behind stores each checkpoint while the job computes")
	}
	if o.domains != "" {
		for word := range strings.SplitSeq(o.domains, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 0 {
				return nil, ui.BadUsage(fmt.Sprintf("--domains %s: want a number for each node, like 0,0,1,1", o.domains), "")
			}
			s.Domains = append(s.Domains, n)
		}
	}
	if o.drainRate != "" {
		if s.Rate, err = ui.ParseSize("--drain-rate", strings.TrimSuffix(o.drainRate, "/s")); err != nil {
			return nil, err
		}
		if s.Rate == 0 {
			return nil, ui.BadUsage("--drain-rate "+o.drainRate+": nothing would ever be stored", "--drain none stores nothing")
		}
	}
	return s, nil
}

// tier adds the directories of the nodes to a description.
func (o *launchOptions) tier(s *job.Spec) (err error) {
	s.Tier, err = o.tierOptions.setting(o.flags)
	return err
}
