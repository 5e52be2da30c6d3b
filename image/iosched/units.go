package iosched

import (
	"maps"
	"slices"
)

// Units has one controller for each storage unit. Clients that name the same unit
// share its controller.
type Units struct {
	policy      string
	options     Options
	controllers map[string]*Controller
}

// NewUnits returns units that all choose by a policy of that name.
func NewUnits(policy string, o Options) (*Units, error) {
	if _, err := New(policy, o); err != nil {
		return nil, err
	}
	return &Units{policy: policy, options: o, controllers: make(map[string]*Controller)}, nil
}

// Controller returns the controller of a unit.
func (u *Units) Controller(unit string) *Controller {
	c := u.controllers[unit]
	if c == nil {
		p, err := New(u.policy, u.options)
		if err != nil { // NewUnits has tried it.
			panic(err)
		}
		c = NewController(unit, p)
		u.controllers[unit] = c
	}
	return c
}

// Names returns the units that were named, sorted.
func (u *Units) Names() []string { return slices.Sorted(maps.Keys(u.controllers)) }
