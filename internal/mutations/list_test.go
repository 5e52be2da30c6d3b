package mutations

var mutations = []mutation{
	{"the digest of a referred file is ignored", "image/tx.go",
		`x.trailer.digest != ref.digest`, `false`, "TestBaseReplaced"},
	{"commit does not look at references", "image/tx.go",
		"	defer c.Close()\n	for _, ref := range c.index.files {", "	defer c.Close()\n	for _, ref := range c.index.files[:0] {", "TestCommitChecksReferences"},

	{"a segment is read to the end of its file", "coordinator/msglog/scan.go",
		"	if seg.end < 0 {\n		s.end = size\n	}", "	s.end = size", "TestBehindTheEnd"},
	{"a segment may be shorter than the next one says", "coordinator/msglog/scan.go",
		`case size < seg.end:`, `case false:`, "TestShortOfTheEnd"},

	{"no spare checkpoint is kept", "coordinator/protocol/supervisor/collect.go",
		`spare := max(1, s.cfg.Keep) - 1`, `spare := 0`, "TestKeepSpare"},
}
