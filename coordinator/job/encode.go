package job

import (
	"encoding/json"
	"fmt"
)

// Encode marshals a body of ours, which cannot fail.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
