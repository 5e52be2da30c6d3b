package finding

// Rules about the codecs of a job of ckpt.

func encoding(s *search) *Finding {
	// Ranks encode and write at the same time, so the wall times of both are compared.
	encode, write := s.Encode.Wall, s.Data[0].Wall
	if encode == 0 || encode < s.t.EncodeFactor*write {
		return nil
	}
	gain := s.EncodeOnly
	f := &Finding{Code: "CK10", Title: "encoding takes longer than writing", Gain: &gain,
		Model:    "The time in which ranks encode and none writes. Without a codec there are more bytes to write: an upper bound.",
		Evidence: []Number{{"encoding_s", encode, s.t.EncodeFactor * write}, {"writing_s", write, 0}}}
	switch s.Codec {
	case CodecFixed:
		f.Remedies = []Remedy{CodecAuto, CodecNone, Async}
		f.Advice = "The storage is faster than the codec. auto packs an extent only where that makes it durable sooner; none never packs, and takes more space. Writing while the job computes hides the time."
	case CodecLearns:
		f.Severity, f.Remedies = Info, []Remedy{Async}
		f.Advice = "The job has measured the same, and uses it at the next checkpoint: it packs an extent only where that makes it durable sooner. Writing while the job computes hides the rest."
	default:
		f.Remedies = []Remedy{CodecAuto, Async}
		f.Advice = "The storage is faster than the codec, unless the codec was auto: that learns from each checkpoint what to pack. Or write while the job computes, if it does not yet."
	}
	return f
}

func unencoded(s *search) *Finding {
	write := s.Data[0]
	if s.Encode.Count > 0 || !s.Gathers && !s.Ours || write.Time < s.t.UnencodedSeconds || write.Time == 0 {
		return nil
	}
	gain := write.Wall * s.t.CodecShare
	return &Finding{Code: "CK11", Severity: Info, Title: "nothing is compressed", Gain: &gain,
		Model:    "The share codec_share of the time of writing.",
		Evidence: []Number{{"write_s", write.Time, s.t.UnencodedSeconds}, {"bytes_written", float64(write.Bytes), 0}},
		Remedies: []Remedy{CodecAuto},
		Advice:   "Writing takes long enough for a codec to pay; auto finds out which."}
}
