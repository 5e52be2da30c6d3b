package serve_test

import (
	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/serve"
)

func init() { serve.TestTree = serve.Tree{New: root.New, Call: root.Call} }
