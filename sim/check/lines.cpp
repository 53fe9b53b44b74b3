// Waits for lines: one predicate over all their lines, and over words that it loads itself.
//
// Each line of an access may show any version that coherence allows, whatever the others show. What ends a wait is found line
// by line: the lanes that share a line decide together. Where several ways end it, some stand for all: every line as new as
// can be, every line as old as can be, and each line alone as it also may be. Where a predicate holds whatever its lines show
// (it has found a word that tells it to stop), two do: all as new as can be, and one that is drawn among the others.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/site_name.hpp"
#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

constexpr int groups = lines_of_access;
constexpr std::size_t most_ways = 4096;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// A number that looks drawn, the same for the same two.
std::size_t drawn(std::size_t a, std::size_t b) {
  const std::uint64_t mixed = (a * 0x9e3779b97f4a7c15u + b) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::size_t>(mixed >> 33);
}

}  // namespace

void execution::store_line(int warp, std::byte* to, const std::byte* line) {
  require_memory(warp, to, line_bytes);
  perform(warp, {verb::store, order::relaxed, scope::system, line_bytes, to, shop_.ram.version_of(line)});
}

bool execution::wait_lines(int warp, wait_request& request) {
  for (int i = 0; i < request.num_lines; ++i) require_memory(warp, request.words[at(i)].address, line_bytes);
  request.asked_at = steps_;
  return await(warp, {verb::wait, order::relaxed, scope::system, line_bytes, nullptr, 0, &request});
}

std::uint64_t execution::load_in_predicate(const operation& op) {
  predicate_look& look = *looking_;
  wait_request& request = *look.request;
  for (int i = request.num_lines; i < request.num_words; ++i) {
    if (request.words[at(i)].address != op.address) continue;
    look.asked |= 1u << i;
    const atomic_word& word = shop_.ram.word(pending_word_of(request.words[at(i)]));
    return word.messages[at((*look.shown)[at(i)])].value;
  }
  if (op.what != verb::load || request.num_words == warp_lanes) {
    shop_.found.add(verdict::thrown, fmt::format("a predicate at {} does more than to load a few words",
                                                 name(request.where.where)));
    return 0;
  }
  request.words[at(request.num_words++)] = {0, op.address, 0, op.bytes, op.reach};
  look.has_new_word = true;
  return shop_.ram.word(shop_.ram.word_at(op.address, op.bytes)).messages.back().value;
}

/// Finds what ends the wait, unless nothing was stored since it was found. When it is found changes nothing: a schedule that
/// runs again looks only when the warp steps.
void execution::look_at_lines(int warp, wait_request& request) {
  for (;;) {
    std::size_t messages = 1;
    for (int i = 0; i < request.num_words; ++i)
      messages += shop_.ram.word(pending_word_of(request.words[at(i)])).messages.size();
    if (request.look.messages == messages) return;
    request.look = {messages, drawn(messages, at(64 * request.asked_at + warp)), false, {}, -1, false};
    shown_messages shown;
    shown.fill(-1);
    const int words = request.num_words;
    for (int i = request.num_lines; i < words; ++i) {
      const atomic_word& word = shop_.ram.word(pending_word_of(request.words[at(i)]));
      shown[at(i)] = static_cast<int>(word.messages.size()) - 1;
    }
    bool is_newest = true, goes_on = true;
    while (goes_on && try_lines(warp, request, shown, is_newest)) {
      is_newest = goes_on = false;
      for (int i = request.num_lines; i < words && !goes_on; ++i) {  // the next older of one word
        const atomic_word& word = shop_.ram.word(pending_word_of(request.words[at(i)]));
        goes_on = --shown[at(i)] >= shop_.ram.oldest_readable(warp, word);
        if (!goes_on) shown[at(i)] = static_cast<int>(word.messages.size()) - 1;
      }
    }
    if (request.num_words == words) return;
    request.look.messages = 0;  // a word is new: once more
  }
}

/// The predicate's own words show these messages. False: it has asked for a new one.
bool execution::try_lines(int warp, wait_request& request, shown_messages& shown, bool is_newest) {
  const int places = request.num_lines / groups;
  std::vector<shown_messages> of_group[groups];
  predicate_look look{warp, &request, &shown, 0, false};
  for (int group = 0; group < groups; ++group) {
    shown_messages now = shown;
    int newest[warp_lanes], oldest[warp_lanes];
    for (int place = 0; place < places; ++place) {
      const atomic_word& word = shop_.ram.word(pending_word_of(request.words[at(place * groups + group)]));
      now[at(place * groups + group)] = newest[place] = static_cast<int>(word.messages.size()) - 1;
      oldest[place] = shop_.ram.oldest_readable(warp, word);
    }
    for (int place = 0; place < places;) {
      const std::byte* lines[warp_lanes];
      int born = -1;
      bool goes_back = false;  // looks at one line do not
      for (int i = 0; i < places; ++i) {
        const awaited_word& asked = request.words[at(i * groups + group)];
        for (int later = i + 1; later < places; ++later)
          goes_back = goes_back || (request.words[at(later * groups + group)].address == asked.address &&
                                    now[at(later * groups + group)] < now[at(i * groups + group)]);
        const message& m = shop_.ram.word(pending_word_of(asked)).messages[at(now[at(i * groups + group)])];
        lines[i] = shop_.ram.line(m.value);
        born = std::max(born, m.born);
      }
      look.asked = 0;
      looking_ = &look;
      const bool holds = request.group_holds(request.predicate, group, lines);
      looking_ = nullptr;
      if (look.has_new_word) return false;
      shown_messages told = now;
      for (int i = request.num_lines; i < request.num_words; ++i) {
        if ((look.asked >> i & 1) == 0)
          told[at(i)] = -1;
        else
          born = std::max(
              born, shop_.ram.word(pending_word_of(request.words[at(i)])).messages[at(now[at(i)])].born);
      }
      if (holds && !goes_back) {
        of_group[group].push_back(told);
      } else if (!goes_back) {
        line_look& found = request.look;
        found.oldest_refusal = found.refuses ? std::min(found.oldest_refusal, born) : born;
        found.refuses = true;
      }
      for (place = 0; place < places; ++place) {  // the next older of one line
        int& message = now[at(place * groups + group)];
        if (--message >= oldest[place]) break;
        message = newest[place];
      }
    }
  }
  add_ends(request, of_group, is_newest);
  return true;
}

/// Joins what each group of lines may show into ways for the wait to end.
void execution::add_ends(wait_request& request, const std::vector<shown_messages>* of_group, bool is_newest) {
  std::size_t ways = 1;
  for (int group = 0; group < groups; ++group) ways = std::min(most_ways, ways * of_group[group].size());
  if (ways == 0) return;
  line_look& found = request.look;
  const auto way = [&](std::size_t nth) {
    shown_messages all;
    all.fill(-1);
    for (int group = 0; group < groups; ++group) {
      const shown_messages& part = of_group[group][nth % of_group[group].size()];
      nth /= of_group[group].size();
      for (int i = 0; i < request.num_words; ++i) {
        const bool is_of_group = i < request.num_lines && i % groups == group;
        if (is_of_group || (i >= request.num_lines && part[at(i)] >= 0)) all[at(i)] = part[at(i)];
      }
    }
    return all;
  };
  const auto asks = [&](const shown_messages& all) {
    return std::any_of(all.begin() + request.num_lines, all.end(), [](int message) { return message >= 0; });
  };
  const auto add = [&](const shown_messages& all) {
    // What asks for no word of its own has been found with the newest words.
    if (is_newest || asks(all)) found.ends.push_back(all);
  };
  if (is_newest) {
    found.certain = true;
    for (int i = 0; i < request.num_lines; ++i) {
      const int newest =
          static_cast<int>(shop_.ram.word(pending_word_of(request.words[at(i)])).messages.size()) - 1;
      found.certain = found.certain && way(0)[at(i)] == newest;
    }
  }
  bool ends_by_word = false;
  for (int group = 0; group < groups; ++group)
    ends_by_word = ends_by_word || std::any_of(of_group[group].begin(), of_group[group].end(), asks);
  const bool together = limits_.fault == planted_fault::lines_come_together;
  const auto add_drawn = [&] {
    if (ways > 1) add(way(1 + drawn(found.draw, ways) % (ways - 1)));
  };
  if (together) {
    add(way(0));
    if (ways > 1) add(way(ways - 1));
  } else if (request.is_look && limits_.looks == 1) {
    add(way(drawn(found.draw, ways) % ways));
  } else if (ends_by_word || (request.is_look && limits_.looks == 2)) {
    add(way(0));
    add_drawn();
  } else if (request.is_look) {
    for (std::size_t nth = 0; nth < ways; ++nth) add(way(nth));
  } else {
    add(way(0));
    if (ways > 1) add(way(ways - 1));
    std::size_t weight = 1;
    for (int group = 0; group < groups; weight *= of_group[group++].size()) {
      for (std::size_t nth = 1; nth < of_group[group].size() && weight * nth + 1 < ways; ++nth)
        add(way(weight * nth));
    }
  }
}

bool execution::is_new(const wait_request& request, const shown_messages& shown, int newer_than) {
  if (newer_than < 0) return true;
  for (int i = 0; i < request.num_words; ++i) {
    if (shown[at(i)] < 0) continue;
    const atomic_word& word = shop_.ram.word(pending_word_of(request.words[at(i)]));
    if (word.messages[at(shown[at(i)])].born >= newer_than) return true;
  }
  return false;
}

bool execution::step_lines(int warp, wait_request& request, int choice, int newer_than) {
  look_at_lines(warp, request);
  const auto chosen =
      std::find_if(request.look.ends.begin(), request.look.ends.end(),
                   [&](const auto& shown) { return is_new(request, shown, newer_than) && choice-- == 0; });
  const bool ended = chosen != request.look.ends.end();
  operation load{verb::load};
  for (int i = 0; i < request.num_words; ++i) {
    awaited_word& asked = request.words[at(i)];
    const int word = pending_word_of(asked);
    const int newest = static_cast<int>(shop_.ram.word(word).messages.size()) - 1;
    load.reach = asked.reach;
    if (!ended) {
      shop_.ram.looked(warp, word, steps_);
      if (i > 0) continue;
    } else if ((*chosen)[at(i)] < 0) {
      if (limits_.fault != planted_fault::predicates_not_reversed)
        shop_.ram.looked(warp, word, steps_);  // had it come later, it might have asked
      continue;
    } else {
      asked.seen = shop_.ram.load(warp, load, word, (*chosen)[at(i)], steps_);
    }
    record({where(warp), verb::wait, order::relaxed, asked.reach, asked.address,
            i < request.num_lines ? line_bytes : 0u,
            ended ? shop_.ram.told(shop_.ram.word(word), asked.seen) : 0, 0,
            ended && (*chosen)[at(i)] != newest, !ended, request.where.where, false});
  }
  return ended;
}

std::string execution::lines_text(wait_request& request) {
  std::string text;
  for (int i = 0; i < request.num_lines; ++i) {
    const awaited_word& asked = request.words[at(i)];
    const atomic_word& word = shop_.ram.word(pending_word_of(asked));
    const std::uint64_t flag = shop_.ram.told(word, word.messages.back().value);
    if (flag == request.where.expected) continue;
    text += fmt::format(" for {} (flag {:#x}; epoch {}, expects {:#x})", shop_.names.of(asked.address), flag,
                        request.where.epoch, request.where.expected);
  }
  return text;
}

}  // namespace baton::check
