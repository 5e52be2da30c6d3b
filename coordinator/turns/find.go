package turns

import "errors"

// ErrNone says that a storage unit has no controller.
var ErrNone = errors.New("no controller of storage turns")
