package elfcore

import "ckpt/zones"

// rank reads the rank, and the number of ranks, from the environment, which lies at the
// upper end of the stack.
func (c *core) rank(p *zones.Process, stack int) error {
	a := &c.areas[stack]
	if a.Stored < a.Bytes() {
		return nil // the upper end is missing
	}
	b := make([]byte, min(a.Stored, zones.StackTop))
	if err := c.read(b, c.contents[stack]+a.Stored-int64(len(b))); err != nil {
		return err
	}
	p.Rank = zones.RankOnStack(b)
	p.JobRanks, p.NodeRanks = zones.JobOnStack(b)
	return nil
}
