package process

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"ckpt/zones"
)

const (
	maxName    = 255
	maxRegions = 1 << 16
	// maxBytes bounds the sizes and addresses that a client may tell: user space ends
	// below it on every 64-bit Linux with 48 bits of address.
	maxBytes = 1 << 47
)

// A region is memory of the process as the client announced it.
type region struct {
	name    string
	elem    zones.Elem
	address uint64
	size    int64
}

// smallBytes is the size below which a region is copied whole, together with others.
const smallBytes = 1 << 20

func (r *region) small() bool { return r.size < smallBytes }

// A table is the list of regions, in the order in which the program protected them.
type table struct {
	regions []region
}

// protect adds a region or replaces the one with its name.
func (t *table) protect(r region) error {
	if err := r.check(); err != nil {
		return err
	}
	if i := t.find(r.name); i >= 0 {
		t.regions[i] = r
		return nil
	}
	if len(t.regions) == maxRegions {
		return fmt.Errorf("protect %q: more than %d regions", r.name, maxRegions)
	}
	t.regions = append(t.regions, r)
	return nil
}

func (t *table) forget(name string) {
	if i := t.find(name); i >= 0 {
		t.regions = slices.Delete(t.regions, i, i+1)
	}
}

func (t *table) find(name string) int {
	return slices.IndexFunc(t.regions, func(r region) bool { return r.name == name })
}

func (r *region) check() error {
	if err := validName(r.name); err != nil {
		return fmt.Errorf("protect %q: %w", r.name, err)
	}
	switch {
	case !r.elem.Valid():
		return fmt.Errorf("protect %q: unknown element type %d", r.name, uint8(r.elem))
	case r.size < 0 || r.size > maxBytes || r.address > maxBytes-uint64(r.size):
		return fmt.Errorf("protect %q: %d bytes at %#x are outside the address space", r.name, r.size, r.address)
	case r.size > 0 && r.address == 0:
		return fmt.Errorf("protect %q: %d bytes at address 0", r.name, r.size)
	}
	return nil
}

// validName refuses names that a table, a path or a terminal could not show.
func validName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name of %d bytes (want 1 to %d)", len(name), maxName)
	}
	if !utf8.ValidString(name) {
		return errors.New("name is not UTF-8")
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return errors.New("name has a control character")
		}
	}
	return nil
}

// parseRegion reads a PROTECT message.
func parseRegion(m message) region {
	elem := zones.Elem(255)
	if m.value < 255 {
		elem = zones.Elem(m.value)
	}
	return region{name: string(m.payload), elem: elem, address: uint64(m.a), size: m.b}
}
