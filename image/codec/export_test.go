package codec

import (
	"fmt"
	"slices"
)

// ParseID reads an ID's name. None is another name of raw.
func ParseID(name string) (ID, error) {
	if name == "none" {
		return Raw, nil
	}
	if i := slices.Index(idNames[:], name); i >= 0 {
		return ID(i), nil
	}
	return 0, fmt.Errorf("codec %q is unknown (want raw, zero, s2, zstd or gzip)", name)
}
