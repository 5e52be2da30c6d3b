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

// rankLines says what the ranks hold, where that differs. Ranks that hold as much by the likeliest
// rule share a line, whatever other rules say.
func rankLines(list []predict.RankKind) string {
	text := ""
	lines := 0
	for i := 0; i < len(list); {
		k := list[i]
		for i++; i < len(list) && list[i].Bytes == k.Bytes; i++ {
			k.Count, k.Low, k.High = k.Count+list[i].Count, min(k.Low, list[i].Low), max(k.High, list[i].High)
			k.Ranks = ""
		}
		if lines++; lines > mostRankLines {
			return text + fmt.Sprintf("ranks   %d kinds more, in --json\n", len(list)-i+1)
		}
		text += "ranks   "
		if k.Ranks != "" {
			text += namedRanks(k.Ranks) + ": "
		}
		text += fmt.Sprintf("%d × %d bytes, %s", k.Count, k.Bytes, ui.Bytes(float64(k.Bytes)))
		if k.Low < k.High {
			text += fmt.Sprintf(", or %d to %d bytes", k.Low, k.High)
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
