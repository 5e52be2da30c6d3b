package dataset

import (
	"fmt"
	"regexp"
	"strings"
)

// codecColumns name how the images of a row were compressed.
var codecColumns = []string{"codec", "compression"}

var codecName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

const maxCodecName = 32

// fillStored reads the codec and the stored size of a row. The zones of a compressed
// image are those of the memory in it; the size of its file is what was stored.
func (t *Table) fillStored(m *Measurement, row int, stored, file string) error {
	column := t.first(codecColumns)
	switch codec := strings.ToLower(t.Text(row, column)); {
	case codec == "" || codec == "none" || codec == "no" || codec == "off":
	case len(codec) > maxCodecName || !codecName.MatchString(codec):
		return t.bad(m.Line, column, fmt.Sprintf("%q is not a codec", codec), "write none, or a name like gzip")
	default:
		m.Codec = codec
	}
	var err error
	if m.Stored, err = t.size(row, stored); err != nil {
		return err
	}
	zones := m.Data + m.Library + m.Shared
	switch {
	case m.Codec != "" && zones == 0:
		return t.bad(m.Line, column, fmt.Sprintf("the size of a file under %s does not tell the memory in it", m.Codec),
			"add the zones, which ckpt zones reads from compressed images too, or leave the row out")
	case m.Codec != "":
		if m.Stored == 0 {
			m.Stored = m.File
		}
		m.File = 0
	case m.File > 0 && m.File < compressedBelow*zones:
		return t.bad(m.Line, file, fmt.Sprintf("%.2f MiB is less than the zones of the row, %.2f MiB", m.File, zones),
			"if the image was compressed, name its codec in a column codec: gzip")
	}
	return nil
}

// compressedBelow is the share of the zones from which on a file must be compressed: zones
// are rounded, and Table 5.9 prints files that are 14 % below their zones.
const compressedBelow = 0.8
