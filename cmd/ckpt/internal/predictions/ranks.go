package predictions

import (
	"fmt"
	"math"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/predict"
)

// mostRankLines is how many kinds of ranks a table shows.
const mostRankLines = 8

// rankLines says what the ranks hold, where that differs.
func rankLines(list []predict.RankKind) string {
	text := ""
	for i, k := range list {
		if i == mostRankLines {
			return text + fmt.Sprintf("ranks   %d kinds more, in --json\n", len(list)-i)
		}
		text += fmt.Sprintf("ranks   %s: %d × %d bytes, %s", namedRanks(k.Ranks), k.Count, k.Bytes, ui.Bytes(float64(k.Bytes)))
		if k.Low < k.High {
			text += fmt.Sprintf(", %d to %d bytes", k.Low, k.High)
		}
		text += "\n"
	}
	return text
}

// whole rounds bytes that a sum of floating-point numbers gives.
func whole(bytes float64) int64 { return int64(math.Round(bytes)) }

// namedRanks shortens a list of ranks for a table.
func namedRanks(ranks string) string {
	const most = 40
	if len(ranks) <= most {
		return ranks
	}
	return ranks[:strings.LastIndexByte(ranks[:most], ',')+1] + "…"
}
