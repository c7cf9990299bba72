import Encoding
import Subscriptions

/// Renders the stories of a run. Each story depends only on the seed and its number, so none is stored.
package struct Storyteller: Sendable {
    package let seed: UInt64
    package let stories: [Story]
    /// The bundle id.
    private let app: String
    private let ownership: OwnershipPolicy
    /// All events of the stories lie in it.
    private let window: StoryWindow

    /// - Parameters:
    ///   - stories: Used in turn; at least one.
    ///   - ownership: Decides who owns a subscription that several customers have bought or linked.
    package init(
        seed: UInt64, stories: [Story] = Story.allCases, app: String, ownership: OwnershipPolicy = .standard,
        window: StoryWindow = .standard
    ) {
        precondition(!stories.isEmpty, "the list of stories is empty")
        self.seed = seed
        self.stories = stories
        self.app = app
        self.ownership = ownership
        self.window = window
    }

    /// How often a story that exceeds the window is drawn again.
    private static let drawsMax: UInt64 = 50

    /// Renders the story with this number, counted from 0.
    package func story(at index: Int) -> RenderedStory {
        let story = stories[index % stories.count]
        for attempt in 0...Self.drawsMax {
            var draw = Draw(
                random: SplitMix64(seed: seed, UInt64(index), attempt), seed: seed, index: index, app: app,
                ownership: ownership, window: window, isCompressed: attempt == Self.drawsMax)
            let rendered = story.render(&draw)
            if (window.goesOn ? rendered.lastEvent : rendered.end) <= window.end { return rendered }
        }
        preconditionFailure("\(story.name) exceeds the window even with weekly periods")
    }
}
