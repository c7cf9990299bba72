import Subscriptions

/// Whether a line gives access at an instant, as the storyteller knows it.
package struct Answer: Sendable, Hashable {
    package let originalTransactionId: String
    package let at: Instant
    package let active: Bool
    package let story: Story
    /// Something about the line was never delivered, so nobody else can know.
    package let isIncomplete: Bool
}

extension Simulation {
    /// The right answers, line after line.
    package var answers: some Sequence<Answer> & Sendable {
        (0..<settings.subscriptions).lazy.flatMap { answers(ofStory: $0) }
    }

    /// The right answers about the lines of one story, counted from 0. At most twelve a line: about every boundary of
    /// access, just before and just after it, and between boundaries.
    package func answers(ofStory index: Int) -> [Answer] {
        let told = storyteller.story(at: index)
        return told.lines.enumerated().flatMap { number, line in
            let isIncomplete = isIncomplete(story: index, line: number)
            var random = SplitMix64(seed: settings.seed, UInt64(index), UInt64(number), .max)
            return line.instantsToAsk(&random).map { instant in
                Answer(
                    originalTransactionId: line.originalTransactionId, at: instant,
                    active: line.access.isActive(at: instant), story: told.story, isIncomplete: isIncomplete)
            }
        }
    }

    /// Whether something of the line is never delivered.
    func isIncomplete(story index: Int, line: Int) -> Bool {
        plan.incomplete.contains(DeliveryPlan.LineKey(index: UInt32(index), line: UInt8(line)))
    }
}

extension ToldLine {
    private static let instantsMax = 12

    fileprivate func instantsToAsk(_ random: inout SplitMix64) -> [Instant] {
        let boundaries = access.boundaries.filter { $0 < .latest }.sorted()
        var instants = boundaries.flatMap { [$0.advanced(byMilliseconds: -1), $0, $0.advanced(byMilliseconds: 1)] }
        for (start, end) in zip(boundaries, boundaries.dropFirst() + [Draw.window.upperBound]) {
            instants.append(start.advanced(byMilliseconds: (end.milliseconds - start.milliseconds) / 2))
        }
        if instants.isEmpty, let told = tellings.first { instants = [told.signedDate] }
        return Set(instants).sorted().shuffled(using: &random).prefix(Self.instantsMax).sorted()
    }
}
