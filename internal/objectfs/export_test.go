package objectfs

const (
	MinPart   = minPart
	Abandoned = abandoned
)
