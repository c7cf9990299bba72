import Subscriptions

/// Tells the stories of a run, each from the seed and its number alone: none needs the others, so none is kept.
package struct Storyteller: Sendable {
    package let seed: UInt64
    package let stories: [Story]
    /// The bundle id.
    private let app: String

    /// - Parameter stories: Told in turn; at least one.
    package init(seed: UInt64, stories: [Story] = Story.allCases, app: String) {
        precondition(!stories.isEmpty, "there is no story to tell")
        self.seed = seed
        self.stories = stories
        self.app = app
    }

    /// How often a story is drawn again because it went on too long.
    private static let drawsMax: UInt64 = 50

    /// The story with this number, counted from 0.
    package func story(at index: Int) -> ToldStory {
        let story = stories[index % stories.count]
        for attempt in 0...Self.drawsMax {
            var draw = Draw(
                random: SplitMix64(seed: seed, UInt64(index), attempt), seed: seed, index: index, app: app,
                isHasty: attempt == Self.drawsMax)
            let told = story.tell(&draw)
            if told.end <= Draw.window.upperBound { return told }
        }
        preconditionFailure("\(story.name) goes on too long even in weeks")
    }
}
