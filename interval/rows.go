package interval

import "time"

// A LevelRow is a storage level in seconds.
type LevelRow struct {
	Name    string  `json:"name"`
	Cost    float64 `json:"added_cost_s"`
	Restart float64 `json:"restart_s"`
	Share   float64 `json:"survived_share"`
	Drain   float64 `json:"drain_s"`
}

// A PatternRow is a pattern and what it costs.
type PatternRow struct {
	Rule       string         `json:"rule"`
	Interval   float64        `json:"interval_s"`
	Levels     []PatternLevel `json:"pattern_level_list"`
	Waste      float64        `json:"waste"`
	FirstOrder *float64       `json:"waste_first_order"` // null where that order does not suffice
	Total      float64        `json:"total_s"`
}

// A PatternLevel says which checkpoints of a pattern go to a level.
type PatternLevel struct {
	Name   string  `json:"name"`
	Every  int     `json:"every_count"` // of all checkpoints, one of this many has this level
	Period float64 `json:"level_period_s"`
}

// Rows are the levels.
func (h *Hierarchy) Rows() (rows []LevelRow) {
	for _, l := range h.Levels {
		rows = append(rows, LevelRow{l.Name, l.Cost.Seconds(), l.Restart.Seconds(), l.Share, l.Drain.Seconds()})
	}
	return rows
}

// Row is what a run of work costs with a pattern.
func (h *Hierarchy) Row(work time.Duration, p Pattern) (row PatternRow, err error) {
	total, err := h.Total(work, p)
	if err != nil {
		return row, err
	}
	row.Interval, row.Total = p.Interval.Seconds(), total.Seconds()
	if row.Waste, err = h.Waste(p); err != nil {
		return row, err
	}
	if first, err := h.FirstOrderWaste(p); err == nil {
		row.FirstOrder = &first
	}
	every := 1
	for l := range h.Levels {
		if l > 0 {
			every *= p.Every[l-1]
		}
		period, err := h.Period(p, l)
		if err != nil {
			return row, err
		}
		row.Levels = append(row.Levels, PatternLevel{h.Levels[l].Name, every, period.Seconds()})
	}
	return row, nil
}
