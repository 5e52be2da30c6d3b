package codec

import (
	"fmt"
	"strings"
)

// An ID says how an extent is stored.
type ID uint8

// The ways of storing an extent. The values are part of the image format.
const (
	Raw ID = iota
	Zero
	S2
	Zstd
	Gzip
	numIDs
)

var idNames = [numIDs]string{"raw", "zero", "s2", "zstd", "gzip"}

// Valid reports whether this package knows the ID.
func (id ID) Valid() bool { return id < numIDs }

func (id ID) String() string {
	if !id.Valid() {
		return fmt.Sprintf("codec(%d)", uint8(id))
	}
	return idNames[id]
}

// A Filter reorders an extent before it is compressed.
type Filter uint8

// The filters. The values are part of the image format.
const (
	NoFilter Filter = iota
	Shuffle4        // elements of 4 bytes
	Shuffle8        // elements of 8 bytes
	numFilters
)

var filterNames = [numFilters]string{"none", "shuffle4", "shuffle8"}

// Valid reports whether this package knows the filter.
func (f Filter) Valid() bool { return f < numFilters }

func (f Filter) String() string {
	if !f.Valid() {
		return fmt.Sprintf("filter(%d)", uint8(f))
	}
	return filterNames[f]
}

// width returns the bytes of an element that the filter takes apart, which is
// also the number of planes it makes.
func (f Filter) width() int {
	switch f {
	case Shuffle4:
		return 4
	case Shuffle8:
		return 8
	}
	return 1
}

// A Setting is what a user asks of an Encoder. The zero value is UseAuto.
type Setting uint8

// The settings.
const (
	UseAuto Setting = iota // whatever stores the extent soonest
	UseNone                // no compression; zeros are still left out
	UseGzip                // for readers that have nothing else
	UseZstd                // the smallest
	UseS2                  // the fastest
	numSettings
)

var settings = [numSettings]struct {
	name string
	id   ID
}{{"auto", Raw}, {"none", Raw}, {"gzip", Gzip}, {"zstd", Zstd}, {"s2", S2}}

func (s Setting) String() string {
	if s >= numSettings {
		return fmt.Sprintf("setting(%d)", uint8(s))
	}
	return settings[s].name
}

// Settings returns all settings but UseAuto, the one without compression first.
func Settings() []Setting {
	var list []Setting
	for s := UseNone; s < numSettings; s++ {
		list = append(list, s)
	}
	return list
}

// Choices lists the names of all settings: auto, none, gzip, zstd or s2.
func Choices() string {
	names := Names()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Names returns the names of all settings, auto first.
func Names() []string {
	names := []string{UseAuto.String()}
	for _, s := range Settings() {
		names = append(names, s.String())
	}
	return names
}

// ParseSetting reads a setting's name, one of Choices.
func ParseSetting(name string) (Setting, error) {
	for i, s := range settings {
		if s.name == name {
			return Setting(i), nil
		}
	}
	return 0, fmt.Errorf("compression %q is unknown (want %s)", name, Choices())
}
