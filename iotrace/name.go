package iotrace

import (
	"fmt"
	"slices"
	"strconv"
)

var moduleNames = [...]string{POSIX: "POSIX", MPIIO: "MPIIO", STDIO: "STDIO"}

// valid reports whether m is known.
func (m Module) valid() bool { return int(m) < len(moduleNames) }

func (m Module) String() string {
	if m.valid() {
		return moduleNames[m]
	}
	return fmt.Sprintf("module(%d)", uint8(m))
}

// zoneNames repeats the names of package zones, which a leaf cannot import.
var zoneNames = [...]string{"", "library", "data", "shared", "iobuffer"}

// String returns the name of the zone, "" for an unknown zone, or the number of a zone
// without a name.
func (z Zone) String() string {
	if int(z) < len(zoneNames) {
		return zoneNames[z]
	}
	return strconv.Itoa(int(z))
}

// ParseOp reads the name of an operation.
func ParseOp(name string) (Op, error) {
	if i := slices.Index(opNames[1:], name); i >= 0 {
		return Op(i + 1), nil
	}
	return 0, fmt.Errorf("operation %q is unknown", name)
}

// ParseZone reads what Zone.String returns.
func ParseZone(name string) (Zone, error) {
	if i := slices.Index(zoneNames[:], name); i >= 0 {
		return Zone(i), nil
	}
	if n, err := strconv.ParseUint(name, 10, 8); err == nil && int(n) >= len(zoneNames) && strconv.Itoa(int(n)) == name {
		return Zone(n), nil
	}
	return 0, fmt.Errorf("zone %q is unknown", name)
}
