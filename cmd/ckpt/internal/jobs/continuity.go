package jobs

import (
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/iosched"
	"ckpt/image/plan"
)

// continuityLine is the degree of continuity of a plan, as --json prints it.
type continuityLine struct {
	Degree     float64     `json:"continuity"`
	Way        iosched.Way `json:"continuity_way"`
	Plain      float64     `json:"plain_access_s"`
	Sieved     float64     `json:"sieved_access_s"`
	Collective float64     `json:"collective_access_s"`
	Blocks     int64       `json:"rank_blocks"`
	Block      int64       `json:"block_bytes"`
	Span       int64       `json:"span_bytes"`
}

// continuity is that of a plan on the storage of --on; nil without.
func (o *layoutOptions) continuity(sources []plan.Source, p *plan.Plan) (*continuityLine, error) {
	if o.storage.On == "" {
		return nil, nil
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	pattern, ok := tune.Accesses(sys, sources, p)
	if !ok {
		return nil, nil
	}
	c, err := pattern.Continuity()
	if err != nil {
		return nil, err
	}
	return &continuityLine{Degree: c.Degree, Way: c.Way, Plain: c.Plain, Sieved: c.Sieved, Collective: c.Collective,
		Blocks: pattern.Blocks, Block: pattern.Block, Span: pattern.Span}, nil
}

// text describes it in a line.
func (c *continuityLine) text() string {
	return fmt.Sprintf("β %.2f: %s; plain %s, sieved %s, collective %s", c.Degree, c.Way,
		ui.Seconds(c.Plain), ui.Seconds(c.Sieved), ui.Seconds(c.Collective))
}
