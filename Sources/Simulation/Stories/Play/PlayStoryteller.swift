import Encoding

/// Renders the stories of a run on Google Play. Each depends only on the settings, its number and the acknowledgements,
/// so none is stored.
package struct PlayStoryteller: Sendable {
    package struct Settings: Sendable {
        package var seed: UInt64 = 1
        /// Used in turn; at least one.
        package var stories = PlayStory.allCases
        /// Google's package name.
        package var packageName = "com.example.app"
        /// The prefix of the products of one-time purchases, which both stores have.
        package var bundleId = "com.example.app"
        /// Whether the app itself acknowledges its purchases, as it should if its server does not.
        package var isAcknowledgedByApp = true
        package var tokenCharacters = PlayIdentifiers.tokenCharacters
        /// The app user of the story with this number, if the customer also buys in another store.
        package var accountId: (@Sendable (_ story: Int) -> String?)?
        /// All events of the stories lie in it.
        package var window = StoryWindow.standard

        package init() {}
    }

    package let settings: Settings

    /// How often a story that exceeds the window is drawn again.
    private static let drawsMax: UInt64 = 50

    package init(_ settings: Settings = Settings()) {
        precondition(!settings.stories.isEmpty, "the list of stories is empty")
        self.settings = settings
    }

    /// Renders the story with this number, counted from 0.
    ///
    /// - Parameter acknowledged: When the app's server acknowledged purchases, by purchase token. A purchase that is
    ///   acknowledged too late, or never, is taken back at its deadline.
    package func story(at index: Int, acknowledged: [String: Instant] = [:]) -> RenderedPlayStory {
        let story = settings.stories[index % settings.stories.count]
        let isAcknowledgedByApp = settings.isAcknowledgedByApp && story != .unacknowledged
        // The number of draws may not depend on what is acknowledged, so it is found as if everything were.
        var attempt: UInt64 = 0
        while attempt < Self.drawsMax {
            let complete = render(story, index, attempt, isAcknowledgedByApp: true, [:])
            if end(of: complete) <= settings.window.end {
                if isAcknowledgedByApp, acknowledged.isEmpty { return complete }
                break
            }
            attempt += 1
        }
        let rendered = render(story, index, attempt, isAcknowledgedByApp: isAcknowledgedByApp, acknowledged)
        precondition(
            end(of: rendered) <= settings.window.end, "\(story.name) exceeds the window even with weekly periods")
        return rendered
    }

    /// What may not lie after the window. A charge that is due in its last minutes may do so.
    private func end(of rendered: RenderedPlayStory) -> Instant {
        guard settings.window.goesOn else { return rendered.end }
        let isDue = rendered.subscriptions.contains { $0.isRenewing && $0.paidEnd <= settings.window.end }
        return isDue ? .latest : rendered.lastEvent
    }

    private func render(
        _ story: PlayStory, _ index: Int, _ attempt: UInt64, isAcknowledgedByApp: Bool,
        _ acknowledged: [String: Instant]
    ) -> RenderedPlayStory {
        story.render { life in
            PlayDraw(
                random: SplitMix64(seed: settings.seed, UInt64(index), attempt, UInt64(life), 5), settings: settings,
                story: index, life: life, isAcknowledgedByApp: isAcknowledgedByApp, acknowledged: acknowledged,
                accountId: settings.accountId?(index), isCompressed: attempt == Self.drawsMax)
        }
    }

    /// The number of the story whose purchase has the token; nil if the text is no token of a run with this seed.
    package func place(ofToken token: String) -> PlayIdentifiers.Place? {
        PlayIdentifiers.place(ofToken: token, seed: settings.seed)
    }

    package func place(ofOrder order: String) -> PlayIdentifiers.Place? {
        PlayIdentifiers.place(ofOrder: order, seed: settings.seed)
    }
}
